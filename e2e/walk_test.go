package e2e

import (
	"os/exec"
	"testing"
)

// Every command of the README does what it says, and no command of the pages takes away what another
// one has set up: values of the release, templates, annotations of namespaces.
func TestTheCommandsOfTheDocsAreWalkedInTheirOrder(t *testing.T) {
	t.Parallel()
	walk := exec.CommandContext(t.Context(), checkout.Path(".cache", "ground-command"), "walk")
	walk.Dir = string(checkout)
	if out, err := walk.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
