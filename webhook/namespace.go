package webhook

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/templates"
)

type namespace struct {
	rules     labels.Rules
	proven    func() bool
	templates func() *templates.Set
}

// NewNamespace returns the webhook that puts Pillion's labels on in every write of a
// namespace: they are true from the first moment. It refuses nothing. The functions return
// whether Pillion has proven that it works, and the set in force.
func NewNamespace(rules labels.Rules, proven func() bool, templates func() *templates.Set) Webhook {
	return namespace{rules, proven, templates}
}

func (namespace) Name() string { return "namespace" }

func (n namespace) Review(ctx context.Context, r *Review) (Response, error) {
	if want := (metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"}); r.Kind != want {
		return Response{}, Malformed("the review is about %s; this webhook is for v1 Namespaces", r.Kind.String())
	}
	if r.Operation != "CREATE" && r.Operation != "UPDATE" {
		return Allowed(), nil
	}
	if err := r.memory.hold(ctx, "", workSize(0, r.Object, r.OldObject)); err != nil {
		// The write passes as it is, and the label controller corrects it: nobody waits or is
		// refused for a label of Pillion's.
		return Allowed(), nil
	}
	object, _, err := readObject(r.Object, "Namespace")
	if err != nil {
		return Response{}, err
	}
	var before labels.Namespace
	if r.Operation == "UPDATE" {
		if before, err = n.owned(r.OldObject); err != nil {
			return Response{}, err
		}
	}
	ns := templates.Namespace{Name: r.Name, Labels: object.Labels.value, Annotations: object.Annotations.value}
	if ns.Name == "" {
		// The name comes from generateName after this call, and the API server sets this label
		// then: what the request says is no name of any namespace.
		delete(ns.Labels, corev1.LabelMetadataName)
	}
	changes := n.rules.InWrite(n.templates(), n.proven(), labels.Namespace{Namespace: ns}, before)
	if len(changes) == 0 {
		return Allowed(), nil
	}
	return Labelled(relabel(ns.Labels != nil, changes)), nil
}

// owned returns the namespace before an update, with which of its labels are Pillion's own. Where
// its field managers cannot be read, it has no label. The error is a [MalformedError].
func (n namespace) owned(old part) (labels.Namespace, error) {
	object, _, err := readObject(old, "Namespace")
	if err != nil {
		return labels.Namespace{}, err
	}
	was := metav1.ObjectMeta{Labels: object.Labels.value}
	if !object.ManagedFields.isAbsent() && kjson.UnmarshalCaseSensitivePreserveInts(object.ManagedFields, &was.ManagedFields) != nil {
		return labels.Namespace{}, nil
	}
	return labels.Owned(&was, n.rules.Keys()), nil
}

// relabel returns the patch that makes the changes in an object, which has labels or has none.
func relabel(labelled bool, changes []labels.Change) []patch.Operation {
	var operations []patch.Operation
	if !labelled {
		operations = append(operations, patch.New(patch.Add, []string{"metadata", "labels"}, map[string]any{}))
	}
	for _, c := range changes {
		operations = append(operations, patch.New(patch.Add, []string{"metadata", "labels", c.Key}, c.Value))
	}
	return operations
}
