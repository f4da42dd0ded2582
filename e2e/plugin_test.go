package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// kubectl runs the program under the name kubectl-pillion, and asks it for completions under
// another one: `make build` links both.
func TestPillionIsAPluginOfKubectl(t *testing.T) {
	t.Parallel()
	own := must(t, "", "pillion", "version")
	kubectl := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), shared.Tool("kubectl"), args...)
		cmd.Env = append(shared.Env(), "PATH="+filepath.Dir(checkout.Pillion())+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		wantNoError(t, err, string(out))
		return string(out)
	}
	if got := kubectl("pillion", "version"); got != own {
		t.Errorf("kubectl pillion version says %q, and pillion version %q", got, own)
	}
	n := newNamespace(t, nil, nil)
	wantTexts(t, "what kubectl offers", kubectl("__complete", "pillion", "ch"), "check\t")
	wantTexts(t, "what kubectl offers", kubectl("__complete", "pillion", "status", "ns/"+n.name), "ns/"+n.name+"\n")
}
