package webhook

import (
	"bytes"
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// labelMemory is the largest memory of a namespace's labels and annotations for each byte of its JSON.
const labelMemory = 16

type namespace struct {
	rules     labels.Rules
	proven    func() bool
	templates func() *templates.Set
}

// NewNamespace returns the webhook that sets Pillion's labels in every write of a namespace,
// so that they are correct before the first pod is created. It refuses nothing. proven
// reports whether the proof of injection has succeeded. templates returns the set in force.
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
	if err := r.memory.acquire(ctx, "", labelMemory*int64(len(r.Object)+len(r.OldObject))); err != nil {
		return n.unread(r)
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
		// The API server generates the name after this call, and then sets this label. The label
		// in the request is not the name.
		delete(ns.Labels, corev1.LabelMetadataName)
	}
	changes := n.rules.ChangesInWrite(n.templates(), n.proven(), labels.Namespace{Namespace: ns}, before)
	if len(changes) == 0 {
		return Allowed(), nil
	}
	return Labelled(relabel(ns.Labels != nil, changes)), nil
}

// unread labels a namespace for which there is no memory to decode it: it scans the text, and sets the labels that
// are absent. A label that is not needed costs little until the label controller removes it, whereas a pod without its
// template stays so.
func (n namespace) unread(r *Review) (Response, error) {
	if slices.Contains(n.rules.Excluded, r.Name) {
		return Allowed(), nil
	}
	text, err := labelsText(r.Object)
	if err != nil {
		return Response{}, Malformed("the review's object is no Namespace: %v", err)
	}
	var changes []labels.Change
	if len(n.templates().Required()) > 0 {
		changes = append(changes, labels.Change{Key: v1alpha1.RequiredLabel, Value: "true"})
	}
	if !hasMember(text, v1alpha1.InjectionLabel) {
		changes = append(changes, labels.Change{Key: v1alpha1.InjectionLabel, Value: v1alpha1.InjectionEnabled})
	}
	if len(changes) == 0 {
		return Allowed(), nil
	}
	return Labelled(relabel(!text.isAbsent(), changes)), nil
}

// labelsText returns the JSON text of an object's labels, or nil if they are not a JSON object. It decodes nothing.
func labelsText(object part) (labels part, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err = eachMember(d, func(name string) error {
		if name != "metadata" {
			return d.SkipValue()
		}
		labels = nil // the last of several counts
		return eachMember(d, func(name string) error {
			if name != "labels" {
				return d.SkipValue()
			}
			if labels = nil; d.PeekKind() != '{' {
				return d.SkipValue()
			}
			return labels.UnmarshalJSONFrom(d)
		})
	})
	return labels, err
}

// hasMember reports whether a JSON object has a member with the name.
func hasMember(object part, name string) bool {
	found := false
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := eachMember(d, func(member string) error {
		found = found || member == name
		return d.SkipValue()
	})
	return err == nil && found
}

// eachMember calls f with the name of each member of the next value. f reads the member's value. eachMember skips a
// value that is not an object.
func eachMember(d *jsontext.Decoder, f func(name string) error) error {
	if d.PeekKind() != '{' {
		return d.SkipValue()
	}
	return rawjson.Members(d, '{', f)
}

// owned returns the namespace before an update, with the owners of its labels. If the managed fields
// cannot be decoded, the result has no labels. The error is a [MalformedError].
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

// relabel returns the patch that makes the changes. labelled is whether the object has labels.
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
