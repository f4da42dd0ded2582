package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The product's table of pod defaults is held against what is recorded in its tests' data.
// This test holds what is recorded against the code of each supported Kubernetes.
func TestTheRecordedDefaultsAreThoseOfEachKubernetes(t *testing.T) {
	t.Parallel()
	for version, args := range map[string][]string{"v1.37": {"run", "."}, "v1.35": {"run", "-modfile=v1.35.mod", "."}} {
		t.Run(version, func(t *testing.T) {
			recorded := checkout.Path("templates", "podschema", "testdata", "defaults", version+".json")
			want, err := os.ReadFile(recorded)
			expectNoError(t, err)
			cmd := exec.Command("go", args...)
			cmd.Dir = "defaults"
			cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			got, err := cmd.Output()
			if err != nil {
				t.Fatalf("go %q in e2e/%s: %v\n%s", args, cmd.Dir, err, &stderr)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("Kubernetes %s does something else than %s says; `cd e2e/%s && go %s > …` writes it anew, and the tests of templates/podschema then tell what its table lacks",
					version, recorded, cmd.Dir, strings.Join(args, " "))
			}
		})
	}
}
