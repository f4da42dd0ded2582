package unlabel

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates"
)

// Labels are the labels to look at.
type Labels struct {
	// Injection and Required are their keys.
	Injection, Required string
	// Manager is the field manager of Pillion's own writes.
	Manager string
}

// New returns the labels of a prefix.
func New(prefix, manager string) Labels {
	return Labels{Injection: templates.InjectionLabel(prefix), Required: prefix + "/required", Manager: manager}
}

// Keys returns the keys, each of which a namespace may have.
func (l Labels) Keys() []string { return []string{l.Injection, l.Required} }

// Ours returns the keys of the labels of a namespace that Pillion set.
func (l Labels) Ours(ns metav1.ObjectMeta) []string {
	var keys []string
	if _, ok := ns.Labels[l.Injection]; ok && !slices.ContainsFunc(ns.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager != l.Manager && owns(e, l.Injection)
	}) {
		keys = append(keys, l.Injection)
	}
	if _, ok := ns.Labels[l.Required]; ok {
		keys = append(keys, l.Required)
	}
	return keys
}

// owns reports whether the entry has the label. One that cannot be read has it: in doubt a
// label was set by hand.
func owns(e metav1.ManagedFieldsEntry, label string) bool {
	if e.FieldsV1 == nil {
		return false
	}
	var fields struct {
		Metadata struct {
			Labels map[string]json.RawMessage `json:"f:labels"`
		} `json:"f:metadata"`
	}
	if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
		return true
	}
	_, ok := fields.Metadata.Labels["f:"+label]
	return ok
}

// Patch returns the JSON merge patch that takes the labels off, if the namespace is still as it
// was read.
func Patch(ns metav1.ObjectMeta, keys []string) ([]byte, error) {
	labels := map[string]any{}
	for _, key := range keys {
		labels[key] = nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": ns.ResourceVersion, "labels": labels}})
}
