package e2e

import (
	"os/exec"
	"testing"
)

// Every command of the README, and of the pages that a newcomer reads after it, does what it says.
func TestTheCommandsOfTheDocsAreWalkedInTheirOrder(t *testing.T) {
	t.Parallel()
	walk := exec.CommandContext(t.Context(), checkout.Path(".cache", "ground-command"), "walk")
	walk.Dir = string(checkout)
	if out, err := walk.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
