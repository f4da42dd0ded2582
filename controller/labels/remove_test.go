package labels

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// by is an entry of managed fields for these fields of labels.
func by(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{` + fields + `}}}`)}
}

func TestLabelsThatAHandSetStayAndAllOthersOfPillionGo(t *testing.T) {
	t.Parallel()
	const own = `"f:pillion.dev/injection":{}`
	for name, test := range map[string]struct {
		labels  map[string]string
		managed []metav1.ManagedFieldsEntry
		want    []string
	}{
		"no labels":                     {nil, []metav1.ManagedFieldsEntry{by("pillion.dev", own)}, nil},
		"another prefix":                {map[string]string{"side.example.com/injection": "enabled", "side.example.com/required": "true"}, nil, nil},
		"Pillion's own write":           {map[string]string{"pillion.dev/injection": "enforced"}, []metav1.ManagedFieldsEntry{by("kubectl", `".":{},"f:team":{}`), by("pillion.dev", own)}, []string{"pillion.dev/injection"}},
		"by the webhook, without owner": {map[string]string{"pillion.dev/injection": "enabled"}, []metav1.ManagedFieldsEntry{by("kubectl", `".":{}`)}, []string{"pillion.dev/injection"}},
		"by hand":                       {map[string]string{"pillion.dev/injection": "disabled"}, []metav1.ManagedFieldsEntry{by("kubectl-label", own)}, nil},
		"by hand and by Pillion":        {map[string]string{"pillion.dev/injection": "enforced"}, []metav1.ManagedFieldsEntry{by("pillion.dev", own), by("argocd", own)}, nil},
		"required, by whomever":         {map[string]string{"pillion.dev/required": "true"}, []metav1.ManagedFieldsEntry{by("kubectl", `"f:pillion.dev/required":{}`)}, []string{"pillion.dev/required"}},
		"by hand, and required":         {map[string]string{"pillion.dev/injection": "enforced", "pillion.dev/required": "true"}, []metav1.ManagedFieldsEntry{by("helm", own)}, []string{"pillion.dev/required"}},
		"both":                          {map[string]string{"pillion.dev/injection": "enforced", "pillion.dev/required": "true"}, nil, []string{"pillion.dev/injection", "pillion.dev/required"}},
		"an entry that cannot be read":  {map[string]string{"pillion.dev/injection": "enabled"}, []metav1.ManagedFieldsEntry{by("kubectl", own+`[`)}, nil},
		"an entry without fields":       {map[string]string{"pillion.dev/injection": "enabled"}, []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}, []string{"pillion.dev/injection"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := PillionsKeys(&metav1.ObjectMeta{Labels: test.labels, ManagedFields: test.managed}); !slices.Equal(got, test.want) {
				t.Errorf("Pillion's labels are %q, want %q", got, test.want)
			}
		})
	}
}
