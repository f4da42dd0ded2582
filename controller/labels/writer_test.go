package labels

import (
	"encoding/json"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestAnApplyTakesALabelFromNobodyAndTheRequiredOneFromAnybody(t *testing.T) {
	enforce, require := Change{Key: injection, Value: "enforced", From: "enabled"}, Change{Key: key, Value: "true", From: "no"}
	for name, c := range map[string]struct {
		owner   string
		now     string // the label of injection when the namespace is read again
		changes []Change
		forced  bool
	}{
		"a hand's label":              {"kubectl", "enabled", []Change{enforce}, false},
		"nobody's label":              {"before-first-apply", "enabled", []Change{enforce}, true},
		"nobody's label that changed": {"before-first-apply", "disabled", []Change{enforce}, false},
		"a hand's required label":     {"kubectl", "enabled", []Change{require}, true},
		"one of two is a hand's":      {"kubectl", "enabled", []Change{enforce, require}, false},
		"nobody owns one of the two":  {"before-first-apply", "enabled", []Change{enforce, require}, true},
		"somebody has Nobody in mind": {"not-before-first-apply", "enabled", []Change{enforce}, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
			var sent []string
			client.PrependReactor("patch", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
				patch := a.(clienttesting.PatchActionImpl)
				var of struct{ Metadata metav1.ObjectMeta }
				if err := json.Unmarshal(patch.Patch, &of); err != nil || patch.PatchType != types.ApplyPatchType {
					t.Fatalf("%s: %v", patch.Patch, err)
				}
				if sent = append(sent, of.Metadata.ResourceVersion); len(sent) == 1 {
					return true, nil, apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "` + c.owner + `" using v1`}}, "conflict")
				}
				return true, &metav1.PartialObjectMetadata{}, nil
			})
			client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
					Name: "shop", ResourceVersion: "8", Labels: map[string]string{injection: c.now, key: "no"},
				}}, nil
			})
			ns := namespace("shop", injection+"=enabled", key+"=no")
			ns.ResourceVersion = "7"
			err := Writer{Client: client}.PutOn(t.Context(), ns, c.changes)
			if forced := len(sent) == 2 && sent[1] == "8" && err == nil; forced != c.forced || !forced && len(sent) != 1 {
				t.Errorf("%d applies, for the versions %q: %v", len(sent), sent, err)
			}
			if untouched := c.now == "enabled" && !c.forced; untouched != isOwnerConflict(err) {
				t.Errorf("PutOn() = %v, which says that somebody owns the label: %t, want %t", err, isOwnerConflict(err), untouched)
			}
		})
	}
}

func TestLabelsAreTakenOffForTheVersionThatWasCompared(t *testing.T) {
	client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	client.PrependReactor("patch", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchActionImpl)
		if want := `{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"` + key + `":null},"resourceVersion":"7"}}`; string(patch.Patch) != want || patch.PatchType != types.MergePatchType {
			t.Errorf("got  %s\nwant %s", patch.Patch, want)
		}
		return true, nil, apierrors.NewConflict(corev1.Resource("namespaces"), "shop", errors.New("it changed"))
	})
	ns := namespace("shop", key+"=true")
	ns.ResourceVersion = "7"
	if err := (Writer{Client: client}).TakeOff(t.Context(), ns, []Change{{Key: key, From: "true"}}); !apierrors.IsConflict(err) || isOwnerConflict(err) {
		t.Errorf("TakeOff() = %v", err)
	}
}
