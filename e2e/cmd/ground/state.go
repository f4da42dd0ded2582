package main

import (
	"encoding/json"
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
func (s state) options() string         { return filepath.Join(string(s), "options.json") }
func (s state) tool(name string) string { return filepath.Join(s.bin(), name) }
func (s state) holder() string          { return string(s) + ".holder" }

// create makes the folder, empty.
func (s state) create() error {
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

// publish makes known what the ground is, its kubeconfig, its tools and Pillion's own.
func (s state) publish(g ground.Ground, checkout ground.Checkout, asked ground.Options) error {
	tools := map[string]string{}
	for _, name := range []string{"pillion", "kubectl-pillion", "kubectl_complete-pillion"} {
		tools[name] = checkout.Pillion()
	}
	for _, tool := range []string{"kubectl", "helm"} {
		tools[tool] = g.Tool(tool)
	}
	for name, path := range tools {
		if err := os.Symlink(path, s.tool(name)); err != nil {
			return err
		}
	}
	chosen, err := asked.Chosen(g.Kind())
	if err != nil {
		return err
	}
	text, err := json.Marshal(chosen)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.options(), text, 0o600); err != nil {
		return err
	}
	config, err := os.ReadFile(g.Kubeconfig())
	if err != nil {
		return err
	}
	return os.WriteFile(s.kubeconfig(), config, 0o600)
}

// chosen is what the ground is that was published.
func (s state) chosen() (ground.Options, error) {
	var chosen ground.Options
	text, err := os.ReadFile(s.options())
	if err == nil {
		err = json.Unmarshal(text, &chosen)
	}
	return chosen, err
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
