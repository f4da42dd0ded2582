package webhook

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

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
	var before namespaceObject
	if r.Operation == "UPDATE" {
		if before, err = readNamespace(r.OldObject); err != nil {
			return Response{}, err
		}
	}
	if err := r.memory.hold(ctx, "", object.labels, object.annotations, before.labels, before.managers); err != nil {
		// The write passes as it is, and the keeper corrects it: nobody waits or is refused
		// for a label of Pillion's.
		return Allowed(), nil
	}
	ns, err := object.namespace(r.Name)
	if err != nil {
		return Response{}, err
	}
	if ns.Name == "" {
		// The name comes from generateName after this call, and the API server sets this label
		// then: what the request says is no name of any namespace.
		delete(ns.Labels, corev1.LabelMetadataName)
	}
	changes := n.labels.By(n.templates()).InWrite(kept.Namespace{Namespace: ns}, n.owned(before))
	if len(changes) == 0 {
		return Allowed(), nil
	}
	operations, err := relabel(ns.Labels != nil, changes)
	if err != nil {
		return Response{}, err
	}
	return Labelled(operations), nil
}

// owned returns the namespace before an update, with which of its labels are Pillion's own. Where
// that cannot be read, it has no label.
func (n namespace) owned(before namespaceObject) kept.Namespace {
	ns, err := before.namespace("")
	was := metav1.ObjectMeta{Labels: ns.Labels}
	if err != nil || !isAbsent(before.managers) && kjson.UnmarshalCaseSensitivePreserveInts(before.managers, &was.ManagedFields) != nil {
		return kept.Namespace{}
	}
	return kept.Owned(&was, n.labels.Keys())
}

// namespaceObject has the parts of a Namespace that its labels are decided by, not decoded.
type namespaceObject struct{ labels, annotations, managers part }

// readNamespace reads an object of a review. The error is a [MalformedError].
func readNamespace(raw []byte) (namespaceObject, error) {
	if isAbsent(raw) {
		return namespaceObject{}, Malformed("the review's request has no object")
	}
	var object namespaceObject
	hasMetadata := false
	err := scan(raw, func(s *scanner) error {
		return s.object(func(name []byte) error {
			if string(name) != "metadata" {
				return s.json.SkipValue()
			}
			object, hasMetadata = namespaceObject{}, s.json.PeekKind() == '{'
			return s.object(func(name []byte) error {
				switch string(name) {
				case "labels":
					return s.part(&object.labels)
				case "annotations":
					return s.part(&object.annotations)
				case "managedFields":
					return s.part(&object.managers)
				}
				return s.json.SkipValue()
			})
		})
	})
	if err == nil && !hasMetadata {
		err = errors.New("it has no metadata")
	}
	if err != nil {
		return namespaceObject{}, Malformed("the review's object is no Namespace: %v", err)
	}
	return object, nil
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
		if err := scan(m.raw, func(s *scanner) error { return s.texts(m.into) }); err != nil {
			return ns, Malformed("the review's object is no Namespace: metadata.%s: %v", m.field, err)
		}
	}
	return ns, nil
}

// relabel returns the patch that makes the changes in an object, which has labels or has none.
func relabel(labelled bool, changes []kept.Change) ([]patch.Operation, error) {
	var operations []patch.Operation
	add := func(op string, path []string, value any) error {
		operation, err := patch.New(op, path, value)
		operations = append(operations, operation)
		return err
	}
	if !labelled {
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
