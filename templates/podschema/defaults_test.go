package podschema

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/internal/errtest"
)

// recorded is what the code of a version of Kubernetes itself makes of pods.
// The program in e2e/defaults writes it, and an end-to-end test compares.
type recorded struct {
	Pods []struct {
		Given, Defaulted map[string]any
	}
	Dropped []string
}

func eachVersion(t *testing.T, check func(*testing.T, recorded)) {
	files, err := os.ReadDir("testdata/defaults")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d versions (%v)", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(f.Name(), ".json"), func(t *testing.T) {
			data, err := os.ReadFile("testdata/defaults/" + f.Name())
			errtest.ExpectNone(t, err)
			var r recorded
			d := json.NewDecoder(strings.NewReader(string(data)))
			d.UseNumber()
			errtest.ExpectNone(t, d.Decode(&r))
			check(t, r)
		})
	}
}

func TestAPodAndWhatKubernetesMakesOfItAreEqual(t *testing.T) {
	eachVersion(t, func(t *testing.T, r recorded) {
		for i, p := range r.Pods {
			given, defaulted := p.Given["spec"].(map[string]any), p.Defaulted["spec"].(map[string]any)
			takeHostPorts(t, given, defaulted)
			takePodRequests(t, given, defaulted)
			spec := At("spec")
			if a, b := Canonical(spec, given), Canonical(spec, defaulted); a != b {
				t.Errorf("pod %d: they differ by\n%s", i, cmp.Diff(decode(t, []byte(a)), decode(t, []byte(b))))
			}
		}
	})
}

// Webhooks get pods with the API's defaults: an expression reads fields that no author wrote.
func TestAPodWithDefaultsIsWhatKubernetesMakesOfIt(t *testing.T) {
	typed := func(spec map[string]any) string {
		var s corev1.PodSpec
		data, err := json.Marshal(spec)
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err == nil {
			data, err = json.MarshalIndent(s, "", " ")
		}
		errtest.ExpectNone(t, err)
		return string(data)
	}
	eachVersion(t, func(t *testing.T, r recorded) {
		for i, p := range r.Pods {
			before := string(Encode(p.Given))
			filled := WithDefaults(p.Given)["spec"].(map[string]any)
			if string(Encode(p.Given)) != before {
				t.Errorf("pod %d itself was changed", i)
			}
			given, defaulted := p.Given["spec"].(map[string]any), p.Defaulted["spec"].(map[string]any)
			takeHostPorts(t, given, defaulted)
			takePodRequests(t, given, defaulted)
			if got, want := typed(filled), typed(defaulted); got != want {
				t.Errorf("pod %d: %s", i, cmp.Diff(want, got))
			}
		}
	})
}

// takeHostPorts takes out the host ports that come with a host network.
func takeHostPorts(t *testing.T, given, defaulted map[string]any) {
	if given["hostNetwork"] != true {
		return
	}
	for _, c := range defaulted["containers"].([]any) {
		for _, p := range ObjectOf(c)["ports"].([]any) {
			if port := ObjectOf(p); port["hostPort"] != port["containerPort"] {
				t.Errorf("port %s of a host network pod", text(p))
			} else {
				delete(port, "hostPort")
			}
		}
	}
}

// takePodRequests takes out the requests of the pod as a whole that were derived.
func takePodRequests(t *testing.T, given, defaulted map[string]any) {
	asked, got := ObjectOf(ObjectOf(given["resources"])["requests"]), ObjectOf(ObjectOf(defaulted["resources"])["requests"])
	for key, v := range got {
		if asked[key] != nil {
			continue
		}
		if want, ok := DerivedRequests(given, map[string]bool{key: true})[key]; !ok || !SameQuantity(v, want) {
			t.Errorf("the pod's own request of %s is %s in Kubernetes, and %v (%v) here, of %s", key, text(v), want.String(), ok, text(given))
		}
		delete(got, key)
	}
	for key := range asked {
		if _, ok := DerivedRequests(given, map[string]bool{key: true})[key]; !ok && len(ObjectOf(ObjectOf(given["resources"])["limits"])) > 0 {
			t.Errorf("nothing is derived for %s of %s", key, text(given))
		}
	}
	if len(got) == 0 && asked == nil {
		delete(ObjectOf(defaulted["resources"]), "requests")
	}
}

func TestZeroValuesThatTheAPIServerLeavesOutAreDefaults(t *testing.T) {
	eachVersion(t, func(t *testing.T, r recorded) {
		for _, path := range r.Dropped {
			object, name := fieldAt(Pod(), path)
			ft := object.Child(name)
			zero := any(json.Number("0"))
			if ft.Scalar() == Boolean {
				zero = false
			}
			if d, ok := object.means.defaults[name]; ok && text(d(nil)) != text(zero) {
				continue // zero means the default there
			}
			if !IsDefault(object, name, map[string]any{name: zero}) {
				t.Errorf("%s: %s is left out by the API server, and a value here", path, text(zero))
			}
		}
	})
}
