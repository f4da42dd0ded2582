package namespaces

import (
	"bytes"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/injector/kept"
)

// FieldManager is under which name Pillion owns labels of namespaces, in their managed
// fields.
const FieldManager = "pillion"

// byHand returns those of the labels that a field manager other than Pillion's owns. A label
// that nobody owns is Pillion's, too: what a webhook changes in somebody's write is not
// written down as that somebody's.
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
func byHand(ns *metav1.PartialObjectMetadata, labels []string) []string {
	var found []string
	for _, label := range labels {
		if _, there := ns.Labels[label]; there && slices.ContainsFunc(ns.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager != FieldManager && ownsLabel(e.FieldsV1, label)
		}) {
			found = append(found, label)
		}
	}
	return found
}

// ownsLabel reports whether a label is among the fields.
func ownsLabel(fields *metav1.FieldsV1, label string) bool {
	if fields == nil {
		return false
	}
	raw := fields.GetRawBytes()
	if !bytes.Contains(raw, []byte(label)) { // most have none: it is not decoded
		return false
	}
	var owned struct {
		Metadata struct {
			Labels map[string]json.RawMessage `json:"f:labels"`
		} `json:"f:metadata"`
	}
	if json.Unmarshal(raw, &owned) != nil {
		return false
	}
	_, ok := owned.Metadata.Labels["f:"+label]
	return ok
}

// Labelled are the namespaces of an [Informer] that are not being deleted, with what
// injector/keeper needs to know of them.
type Labelled struct{ Informer *Informer }

// List returns them, in no particular order.
func (l Labelled) List() []kept.Namespace {
	var all []kept.Namespace
	for _, item := range l.Informer.cache.List() {
		if ns, ok := item.(*cached); ok && !ns.deleting {
			all = append(all, kept.Namespace{Namespace: ns.namespace(), ByHand: ns.byHand})
		}
	}
	return all
}

// Cached returns one of them. It reads nothing live.
func (l Labelled) Cached(name string) (kept.Namespace, bool) {
	ns, ok := l.Informer.cached(name)
	if !ok || ns.deleting {
		return kept.Namespace{}, false
	}
	return kept.Namespace{Namespace: ns.namespace(), ByHand: ns.byHand}, true
}
