package webhook

import (
	"context"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/templates"
)

type namespace struct {
	labels    kept.Labels
	templates func() *templates.Set
}

// NewNamespace returns the webhook that keeps Pillion's labels in every write of a
// namespace: what they say is true from the first moment. It refuses nothing. The function
// returns the set in force.
func NewNamespace(labels kept.Labels, templates func() *templates.Set) Webhook {
	return namespace{labels, templates}
}

func (namespace) Name() string { return "namespace" }

func (n namespace) Review(ctx context.Context, r *Review) (Response, error) {
	if want := (metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"}); r.Kind != want {
		return Response{}, Malformed("the review is about %s; this webhook is for v1 Namespaces", r.Kind.String())
	}
	if r.Operation != "CREATE" && r.Operation != "UPDATE" {
		return Allowed(), nil
	}
	object, err := readNamespace(r.Object)
	if err != nil {
		return Response{}, err
	}
	if err := r.memory.hold(ctx, "", object.labels, object.annotations); err != nil {
		// The write passes as it is, and the keeper corrects it: nobody waits or is refused
		// for a label of Pillion's.
		return Allowed(), nil
	}
	ns, err := object.namespace(r.Name)
	if err != nil {
		return Response{}, err
	}
	changes := n.labels.By(n.templates()).InWrite(kept.Namespace{Namespace: ns})
	if len(changes) == 0 {
		return Allowed(), nil
	}
	operations, err := relabel(ns.Labels, changes)
	if err != nil {
		return Response{}, err
	}
	return Labelled(operations), nil
}

// namespaceObject has the parts of a Namespace that its labels are decided by, not decoded.
type namespaceObject struct{ labels, annotations part }

// readNamespace reads an object of a review. Keys count as they are written, as in a JSON
// patch. The error is a [MalformedError].
func readNamespace(raw []byte) (namespaceObject, error) {
	if isAbsent(raw) {
		return namespaceObject{}, Malformed("the review's request has no object")
	}
	var object, metadata map[string]part
	err := json.Unmarshal(raw, &object)
	if err == nil && !isAbsent(object["metadata"]) {
		err = json.Unmarshal(object["metadata"], &metadata)
	}
	if err == nil && metadata == nil {
		err = errors.New("it has no metadata")
	}
	if err != nil {
		return namespaceObject{}, Malformed("the review's object is no Namespace: %v", err)
	}
	return namespaceObject{metadata["labels"], metadata["annotations"]}, nil
}

// namespace decodes the parts. Maps that the object does not have are nil. The error is a
// [MalformedError].
func (o namespaceObject) namespace(name string) (templates.Namespace, error) {
	ns := templates.Namespace{Name: name}
	for _, m := range []struct {
		field string
		raw   part
		into  *map[string]string
	}{{"labels", o.labels, &ns.Labels}, {"annotations", o.annotations, &ns.Annotations}} {
		if isAbsent(m.raw) {
			continue
		}
		if err := json.Unmarshal(m.raw, m.into); err != nil {
			return ns, Malformed("the review's object is no Namespace: metadata.%s: %v", m.field, err)
		}
	}
	return ns, nil
}

// relabel returns the patch that makes the changes in an object with these labels.
func relabel(labels map[string]string, changes []kept.Change) ([]patch.Operation, error) {
	var operations []patch.Operation
	add := func(op string, path []string, value any) error {
		operation, err := patch.New(op, path, value)
		operations = append(operations, operation)
		return err
	}
	if labels == nil {
		if err := add(patch.Add, []string{"metadata", "labels"}, map[string]any{}); err != nil {
			return nil, err
		}
	}
	for _, c := range changes {
		if err := add(patch.Add, []string{"metadata", "labels", c.Key}, c.Value); err != nil {
			return nil, err
		}
	}
	return operations, nil
}
