package ground

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// versionBefore is the version that upgrades come from, and that rollbacks go back to: the last
// one that landed. Its chart is kept, since nothing is released yet; in a folder with that version:
//
//	helm package charts/pillion && mv pillion-0.1.0.tgz …/e2e/testdata/pillion-before.tgz
const versionBefore = "28dec109c8bbfcf9be8f28486df9e814d4aed642"

// ChartBefore is the package of the chart of the version before.
func (c Checkout) ChartBefore() string { return c.Path("e2e", "testdata", "pillion-before.tgz") }

// PillionBefore is the program of the version before, if [Checkout.BuildBefore] has built it here.
func (c Checkout) PillionBefore() (path string, ok bool) {
	path = filepath.Join(c.cache("at", versionBefore), "bin", "pillion")
	return path, present(path)
}

// BuildBefore builds the program of the version before, and keeps it in the cache. A clone without its commit goes
// without it, which out tells.
func (c Checkout) BuildBefore(ctx context.Context, out io.Writer) error {
	if _, ok := c.PillionBefore(); ok {
		return nil
	}
	at := c.cache("at", versionBefore)
	if exec.CommandContext(ctx, "git", "-C", string(c), "cat-file", "-e", versionBefore+"^{commit}").Run() != nil {
		fmt.Fprintf(out, "this clone does not have the version before, %.7s (git fetch --unshallow brings it): no upgrade from it is tried\n", versionBefore)
		return nil
	}
	fmt.Fprintf(out, "building the version before, %.7s\n", versionBefore)
	scratch := at + ".new"
	if err := os.RemoveAll(scratch); err != nil {
		return err
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	tree := filepath.Join(scratch, "tree.tar")
	for _, step := range [][]string{
		{"git", "-C", string(c), "archive", "-o", tree, versionBefore},
		{"tar", "-xf", tree, "-C", scratch},
		{"go", "build", "-C", scratch, "-ldflags=-s -w", "-o", "bin/pillion", "./cmd/pillion"},
	} {
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+buildFlags)
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building the version before: %s: %w\n%s", step[0], err, said)
		}
	}
	return os.Rename(scratch, at)
}
