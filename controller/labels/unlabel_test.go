package labels

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
)

func TestARemoverRemovesWhatPillionSetAndReportsIt(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := func(name string, manager string, labels map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", Labels: labels, ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:pillion.dev/injection":{}}}}`),
			}}},
		}
	}
	for _, dryRun := range []bool{true, false} {
		client := metadatafake.NewSimpleMetadataClient(scheme,
			object("plain", "kubectl", map[string]string{"team": "a"}),
			object("set", "pillion.dev", map[string]string{"pillion.dev/injection": "enforced", "pillion.dev/required": "true", "team": "a"}),
			object("hand", "kubectl", map[string]string{"pillion.dev/injection": "disabled"}),
		)
		namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
		done, err := Remover{Namespaces: namespaces, DryRun: dryRun}.Remove(t.Context())
		if err != nil || len(done) != 1 || !slices.Equal(done["set"], []string{"pillion.dev/injection", "pillion.dev/required"}) {
			t.Errorf("it says %v, %v", done, err)
		}
		for name, want := range map[string]int{"plain": 1, "set": map[bool]int{true: 3, false: 1}[dryRun], "hand": 1} {
			ns, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || len(ns.Labels) != want {
				t.Errorf("dry run %t: %s has the labels %v (%v), want %d", dryRun, name, ns.Labels, err, want)
			}
		}
	}
}
