package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// state is the folder that tells everybody where the ground is that `up` left running.
type state string

func stateOf(checkout ground.Checkout) state { return state(checkout.Path(".cache", "ground")) }

func (s state) kubeconfig() string      { return filepath.Join(string(s), "kubeconfig") }
func (s state) bin() string             { return filepath.Join(string(s), "bin") }
func (s state) log() string             { return filepath.Join(string(s), "log") }
func (s state) tool(name string) string { return filepath.Join(s.bin(), name) }
func (s state) holder() string          { return string(s) + ".holder" }

// make makes the folder, empty.
func (s state) make() error {
	if err := os.RemoveAll(string(s)); err != nil {
		return err
	}
	return os.MkdirAll(s.bin(), 0o700)
}

func (s state) remove() error {
	err := os.Remove(s.holder())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(os.RemoveAll(string(s)), err)
}

// publish makes the ground's kubeconfig and tools known.
func (s state) publish(g ground.Ground) error {
	for _, tool := range []string{"kubectl", "helm"} {
		if err := os.Symlink(g.Tool(tool), s.tool(tool)); err != nil {
			return err
		}
	}
	config, err := os.ReadFile(g.Kubeconfig())
	if err != nil {
		return err
	}
	return os.WriteFile(s.kubeconfig(), config, 0o600)
}

// holder is the process that has the ground, if one has.
func holder(checkout ground.Checkout) (pid int, held bool, err error) {
	path := stateOf(checkout).holder()
	unlock, err := ground.TryLock(path)
	switch {
	case err == nil:
		unlock()
		return 0, false, nil
	case errors.Is(err, os.ErrNotExist):
		return 0, false, nil
	case !errors.Is(err, ground.ErrLocked):
		return 0, false, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, true, err
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, true, fmt.Errorf("%s names no process: %w", path, err)
	}
	return pid, true, nil
}
