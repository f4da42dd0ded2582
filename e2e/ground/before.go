package ground

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// At returns this repository as it was at a commit, with the binary built. It keeps it in the
// cache. ok is false if the clone does not have the commit: its history may be cut short.
func (c Checkout) At(ctx context.Context, commit string) (at Checkout, ok bool, err error) {
	if exec.CommandContext(ctx, "git", "-C", string(c), "cat-file", "-e", commit+"^{commit}").Run() != nil {
		return "", false, nil
	}
	at = Checkout(c.cache("at", commit))
	if _, err := os.Stat(at.Path("bin", "pillion")); err == nil {
		return at, true, nil
	}
	scratch := string(at) + ".new"
	if err := os.RemoveAll(scratch); err != nil {
		return "", true, err
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return "", true, err
	}
	tree := filepath.Join(scratch, "tree.tar")
	for _, step := range [][]string{
		{"git", "-C", string(c), "archive", "-o", tree, commit},
		{"tar", "-xf", tree, "-C", scratch},
		{"go", "build", "-C", scratch, "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", "bin/pillion", "./cmd/pillion"},
	} {
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			return "", true, fmt.Errorf("building the version of %s: %s: %w\n%s", commit, step[0], err, said)
		}
	}
	return at, true, os.Rename(scratch, string(at))
}
