package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl runs the program under the name kubectl-pillion, and asks it for completions under
// another one: `make build` links both.
func TestPillionIsAPluginOfKubectl(t *testing.T) {
	t.Parallel()
	own := must(t, "", "pillion", "version")
	cmd := exec.CommandContext(t.Context(), shared.Tool("kubectl"), "pillion", "version")
	path := "PATH=" + filepath.Dir(checkout.Pillion()) + string(filepath.ListSeparator) + os.Getenv("PATH")
	cmd.Env = append(shared.Env(), path)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != own {
		t.Errorf("kubectl pillion version (%v) says %q, and pillion version %q", err, out, own)
	}
	n := newNamespace(t, nil, nil)
	for _, c := range []struct{ line, want string }{{"pillion ch", "check\t"}, {"pillion status ns/" + n.name, "ns/" + n.name + "\n"}} {
		cmd := exec.CommandContext(t.Context(), shared.Tool("kubectl"), append([]string{"__complete"}, strings.Fields(c.line)...)...)
		cmd.Env = append(shared.Env(), path)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("kubectl offers for %q (%v): %q, want %q", c.line, err, out, c.want)
		}
	}
}
