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

// Nobody is the field manager to which API servers give all fields of an object without
// managed fields, at the first server-side apply.
const Nobody = "before-first-apply"

// Own reports whether an entry of managed fields is Pillion's: its writes are server-side
// applies of the namespace itself. A policy of the chart keeps everybody else from writing
// under the name.
func Own(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// InPillionsName returns the first entry of managed fields that owns a label under Pillion's
// name and is not Pillion's: whoever wrote it had no right to the name. Such a label is not
// set by hand, and Pillion cannot change it either.
func InPillionsName(ns metav1.Object, label string) (metav1.ManagedFieldsEntry, bool) {
	for _, e := range ns.GetManagedFields() {
		if e.Manager == FieldManager && !Own(e) && ownsLabel(e.FieldsV1, label) {
			return e, true
		}
	}
	return metav1.ManagedFieldsEntry{}, false
}

// ByHand returns those of the keys of labels that a field manager owns that does not have
// Pillion's name. A label that nobody owns is Pillion's, too: what a webhook changes in
// somebody's write is not written down as that somebody's. So is one that [Nobody] owns.
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
func ByHand(ns metav1.Object, keys []string) []string {
	var found []string
	for _, label := range keys {
		if _, there := ns.GetLabels()[label]; there && slices.ContainsFunc(ns.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager != FieldManager && e.Manager != Nobody && ownsLabel(e.FieldsV1, label)
		}) {
			found = append(found, label)
		}
	}
	return found
}

// Owned returns a namespace with its labels and with the keys of those that are not Pillion's own,
// because somebody set them by hand, or wrote them under Pillion's name.
func Owned(ns metav1.Object, keys []string) Namespace {
	owned := Namespace{Namespace: templates.Namespace{Name: ns.GetName(), Labels: ns.GetLabels(), Annotations: ns.GetAnnotations()}, ByHand: ByHand(ns, keys)}
	for _, key := range keys {
		if _, forged := InPillionsName(ns, key); forged {
			owned.Forged = append(owned.Forged, key)
		}
	}
	return owned
}

// ownsLabel reports whether a label is among the fields. Fields that cannot be read have it: in
// doubt a label was set by hand.
func ownsLabel(fields *metav1.FieldsV1, label string) bool {
	if fields == nil {
		return false
	}
	raw := fields.GetRawBytes()
	if !bytes.Contains(raw, []byte(label)) { // most do not name it
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
