package apirules_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/offline/apirules"
)

// broken is a case of testdata/pods.yaml.
type broken struct {
	Why             string
	Refused, Missed bool
	Metadata, Spec  map[string]any
	C               map[string]any
}

func (b broken) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	spec := map[string]any{"containers": []any{map[string]any{"name": "app", "image": "a:1"}}}
	maps.Copy(spec, b.Spec)
	maps.Copy(spec["containers"].([]any)[0].(map[string]any), b.C)
	metadata := map[string]any{"name": "p"}
	maps.Copy(metadata, b.Metadata)
	pod, problems := apirules.Decode(map[string]any{"metadata": metadata, "spec": spec}, false)
	if len(problems) > 0 {
		t.Fatalf("%s: %v", b.Why, problems)
	}
	return pod
}

// The end-to-end tests ask a real API server about the same pods.
func TestTheRulesRefuseWhatTheAPIServerRefusesAndNothingElse(t *testing.T) {
	data, err := os.ReadFile("testdata/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []broken
	if err := yaml.UnmarshalStrict(data, &cases); err != nil || len(cases) < 80 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	missed := 0
	for _, c := range cases {
		if c.Missed {
			missed++
		}
		found := apirules.Problems(c.pod(t))
		if got := len(found) > 0; got != (c.Refused && !c.Missed) {
			t.Errorf("%s: %v; the API server refuses it: %t", c.Why, found, c.Refused)
		}
		for _, p := range found {
			if !strings.HasPrefix(p.Message, p.Path+": ") || len(p.Steps()) < 2 {
				t.Errorf("%s: the problem %+v with the steps %q", c.Why, p, p.Steps())
			}
		}
	}
	t.Logf("%d pods; of those that are refused, the rules miss %d", len(cases), missed)
}

func TestOnlyWhatAChangeBringsIsAdded(t *testing.T) {
	before := broken{Metadata: map[string]any{"labels": map[string]any{"a": "wrong!"}}, C: map[string]any{"volumeMounts": []any{map[string]any{"name": "gone", "mountPath": "/a"}}}}.pod(t)
	after := before.DeepCopy()
	if found := apirules.Added(before, after); len(found) > 0 {
		t.Errorf("nothing changed, and it adds %v", found)
	}
	after.Labels["b"] = "wrong, too!"
	after.Spec.InitContainers = []corev1.Container{{Name: "side_car", Image: "a:1", VolumeMounts: []corev1.VolumeMount{{Name: "gone", MountPath: "/a"}}}}
	var got []string
	for _, p := range apirules.Added(before, after) {
		got = append(got, strings.Join(p.Steps(), " "))
	}
	want := []string{"metadata labels", "spec initContainers side_car name", "spec initContainers side_car volumeMounts /a name"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAPathIsTakenApartWhateverItsKeysHold(t *testing.T) {
	for path, want := range map[string][]string{
		"spec.containers[web].volumeMounts[/a.b/c].name": {"spec", "containers", "web", "volumeMounts", "/a.b/c", "name"},
		"metadata.labels":                               {"metadata", "labels"},
		"spec.containers[].name":                        {"spec", "containers", "", "name"},
		"spec.containers[a].resources.limits[x.y/z]":    {"spec", "containers", "a", "resources", "limits", "x.y/z"},
		"spec.containers[a].volumeMounts[/x[1]/y].name": {"spec", "containers", "a", "volumeMounts", "/x[1]/y", "name"},
		"": nil,
	} {
		if got := (apirules.Problem{Path: path}).Steps(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// FuzzProblems holds that any pod has problems or none, the same each time; that nothing is
// added by no change; and that a path can be taken apart.
func FuzzProblems(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"spec":{"containers":[{"name":"a_b","volumeMounts":[{"name":"x","mountPath":"/]."}]}]}}`,
		`{"metadata":{"labels":{"a b":"!"}},"spec":{"resources":{"requests":{"cpu":"1"}},"initContainers":[{"resources":{"limits":{"cpu":"2"}}}]}}`,
		`{"spec":{"containers":[{"ports":[{"hostPort":1},{"hostPort":1}],"livenessProbe":{}}],"volumes":[{},{}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var raw map[string]any
		if len(data) > 4<<10 || yaml.Unmarshal(data, &raw) != nil {
			return
		}
		pod, _ := apirules.Decode(raw, true)
		if pod == nil {
			return
		}
		before := pod.DeepCopy()
		found := apirules.Problems(pod)
		if !slices.Equal(found, apirules.Problems(before)) {
			t.Fatal("two answers for one pod")
		}
		if added := apirules.Added(before, pod); len(added) > 0 {
			t.Fatalf("no change adds %v", added)
		}
		for _, p := range found {
			p.Steps()
		}
	})
}
