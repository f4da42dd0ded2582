package kept

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager returns under which name Pillion owns a label of namespaces, in their managed
// fields: the label's prefix. Installations with other prefixes own theirs by other names: a
// server-side apply takes off whatever else the same name has applied.
func FieldManager(label string) string {
	prefix, _, _ := strings.Cut(label, "/")
	return prefix
}

// ByHand returns those of the keys of labels that a field manager other than Pillion's owns. A label
// that nobody owns is Pillion's, too: what a webhook changes in somebody's write is not
// written down as that somebody's.
// See https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
func ByHand(ns metav1.Object, keys []string) []string {
	var found []string
	for _, label := range keys {
		if _, there := ns.GetLabels()[label]; there && slices.ContainsFunc(ns.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager != FieldManager(label) && ownsLabel(e.FieldsV1, label)
		}) {
			found = append(found, label)
		}
	}
	return found
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
	if json.Unmarshal(raw, &owned) != nil {
		return true
	}
	_, ok := owned.Metadata.Labels["f:"+label]
	return ok
}
