package unlabel

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector/kept"
	"github.com/pillion-dev/pillion/templates"
)

// Labels are the labels to look at, by their keys.
type Labels struct{ Injection, Required string }

// New returns the labels of a prefix.
func New(prefix string) Labels {
	return Labels{Injection: templates.InjectionLabel(prefix), Required: templates.RequiredLabel(prefix)}
}

// Keys returns the keys, each of which a namespace may have.
func (l Labels) Keys() []string { return []string{l.Injection, l.Required} }

// Ours returns the keys of the labels of a namespace that Pillion set.
func (l Labels) Ours(ns metav1.ObjectMeta) []string {
	var keys []string
	if value, ok := ns.Labels[l.Injection]; ok && value != templates.InjectionDisabled && len(kept.ByHand(&ns, []string{l.Injection})) == 0 {
		keys = append(keys, l.Injection)
	}
	if _, ok := ns.Labels[l.Required]; ok {
		keys = append(keys, l.Required)
	}
	return keys
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
