package injector

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// hostileCase is a file of testdata/required/hostile: what a tenant does to a pod
// with a required template.
type hostileCase struct {
	// Of is "injected", the pod as Pillion made it, with its record, or "pod", the
	// pod before.
	Of    string          `json:"of"`
	Patch json.RawMessage `json:"patch"`
	// Update: the pod runs, and the patch changes it, by the subresource.
	Update      bool   `json:"update"`
	Subresource string `json:"subresource"`
	// Refused is a part of the refusal. Empty: the pod is admitted.
	Refused string `json:"refused"`
	// Mended: the webhook that injects gives the pod what it lacks, and only the one
	// that verifies refuses it.
	Mended bool `json:"mended"`
}

// TestRequiredMeansRequired gives each of these pods to both webhooks: to the one that
// injects, as if the pod were created so, and to the one that verifies, as if another
// webhook had made it so.
func TestRequiredMeansRequired(t *testing.T) {
	files, err := filepath.Glob("testdata/required/hostile/*.yaml")
	if err != nil || len(files) < 35 {
		t.Fatalf("%d cases (%v)", len(files), err)
	}
	golden := openCase(t, "testdata/required")
	pod := golden.read(t, "pod.yaml")
	injected := golden.inject(t, pod).Pod
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c hostileCase
			if err := yaml.UnmarshalStrict(text, &c); err != nil {
				t.Fatal(err)
			}
			of := map[string]map[string]any{"injected": injected, "pod": pod}[c.Of]
			request := Request{Operation: "CREATE", Pod: patched(t, of, string(c.Patch)), Namespace: golden.namespace, Templates: golden.set}
			p := NewPipeline(Config{})
			if c.Update {
				request.Operation, request.Subresource, request.Old = "UPDATE", c.Subresource, of
			} else {
				out, err := p.Inject(t.Context(), request)
				if c.Mended && err == nil && out.Allowed {
					mended := request
					mended.Pod = out.Pod
					if out, err = p.Verify(t.Context(), mended); err != nil || !out.Allowed {
						t.Errorf("mended: %v %s", err, out.Message)
					}
				} else {
					c.check(t, "injected", out, err)
				}
			}
			out, err := p.Verify(t.Context(), request)
			c.check(t, "verified", out, err)
		})
	}
}

func (c hostileCase) check(t *testing.T, how string, out Outcome, err error) {
	t.Helper()
	switch {
	case err != nil:
		t.Errorf("%s: %v", how, err)
	case out.Allowed == (c.Refused != ""):
		t.Errorf("%s: allowed %v: %s", how, out.Allowed, out.Message)
	case c.Of == "pod" && how == "verified": // the sidecar is not there at all
	case !strings.Contains(out.Message, c.Refused):
		t.Errorf("%s: %s\nwant %s", how, out.Message, c.Refused)
	}
}
