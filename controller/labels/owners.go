package labels

import (
	"bytes"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// FieldManager is the name under which Pillion owns labels of namespaces, in their managed fields.
const FieldManager = v1alpha1.Group

// BeforeFirstApply is the field manager to which API servers assign all fields of an object
// without managed fields, at the first server-side apply.
const BeforeFirstApply = "before-first-apply"

// IsPillionsEntry reports whether an entry of managed fields is Pillion's: Pillion writes by
// server-side applies of the namespace itself. A policy of the chart forbids other clients to
// write under the name.
func IsPillionsEntry(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// FindForgedEntry returns the first entry of managed fields that owns a label under Pillion's
// name and is not Pillion's. Such a label does not count as set by hand, and Pillion cannot
// change it.
func FindForgedEntry(ns metav1.Object, label string) (metav1.ManagedFieldsEntry, bool) {
	for _, e := range ns.GetManagedFields() {
		if e.Manager == FieldManager && !IsPillionsEntry(e) && ownsLabel(e.FieldsV1, label) {
			return e, true
		}
	}
	return metav1.ManagedFieldsEntry{}, false
}

// ByHand returns the keys of labels with an owner other than Pillion. A label without an owner
// is Pillion's, because managed fields do not show changes by webhooks. A label of
// [BeforeFirstApply] is Pillion's, too.
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
func ByHand(ns metav1.Object, keys []string) []string {
	var found []string
	for _, label := range keys {
		if _, there := ns.GetLabels()[label]; there && slices.ContainsFunc(ns.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager != FieldManager && e.Manager != BeforeFirstApply && ownsLabel(e.FieldsV1, label)
		}) {
			found = append(found, label)
		}
	}
	return found
}

// Owned returns a namespace with its labels, and with the keys of the labels that were set by hand
// or written under Pillion's name.
func Owned(ns metav1.Object, keys []string) Namespace {
	owned := Namespace{Namespace: templates.Namespace{Name: ns.GetName(), Labels: ns.GetLabels(), Annotations: ns.GetAnnotations()}, ByHand: ByHand(ns, keys)}
	for _, key := range keys {
		if _, forged := FindForgedEntry(ns, key); forged {
			owned.Forged = append(owned.Forged, key)
		}
	}
	return owned
}

// ownsLabel reports whether the fields contain a label. It returns true for malformed fields: in
// doubt a label was set by hand.
func ownsLabel(fields *metav1.FieldsV1, label string) bool {
	if fields == nil {
		return false
	}
	raw := fields.GetRawBytes()
	if !bytes.Contains(raw, []byte(label)) { // the usual case, without decoding
		return false
	}
	var owned struct {
		Metadata struct {
			Labels map[string]json.RawMessage `json:"f:labels"`
		} `json:"f:metadata"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &owned) != nil {
		return true
	}
	_, ok := owned.Metadata.Labels["f:"+label]
	return ok
}
