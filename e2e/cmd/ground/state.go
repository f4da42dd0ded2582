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

// state is the folder that tells everybody where the ground is that `up` left running. It has
// kubeconfig, the folder bin, the log, and welcome: the text that `up` prints.
type state string

func stateOf(checkout ground.Checkout) state { return state(checkout.Path(".cache", "ground")) }

func (s state) path(elem ...string) string {
	return filepath.Join(append([]string{string(s)}, elem...)...)
}

func (s state) holder() string { return string(s) + ".holder" }

// create makes the folder, empty.
func (s state) create() error {
	if err := os.RemoveAll(string(s)); err != nil {
		return err
	}
	return os.MkdirAll(s.path("bin"), 0o700)
}

func (s state) remove() error {
	return errors.Join(os.RemoveAll(string(s)), os.RemoveAll(s.holder()))
}

// publish makes known the ground's kubeconfig, its tools and Pillion's own, and then how to use them.
func (s state) publish(g ground.Ground, checkout ground.Checkout) error {
	tools := map[string]string{"kubectl": g.Tool("kubectl"), "helm": g.Tool("helm")}
	for _, name := range []string{"pillion", "kubectl-pillion", "kubectl_complete-pillion"} {
		tools[name] = checkout.Pillion()
	}
	for name, path := range tools {
		if err := os.Symlink(path, s.path("bin", name)); err != nil {
			return err
		}
	}
	config, err := os.ReadFile(g.Kubeconfig())
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path("kubeconfig"), config, 0o600); err != nil {
		return err
	}
	return os.WriteFile(s.path("welcome"), []byte(s.welcome(g)), 0o600)
}

// welcome says what the ground is, on its first line, and how to use it.
func (s state) welcome(g ground.Ground) string {
	pods := "No image is pulled here: each one is a stand-in, which answers HTTP on the ports of the software."
	if g.Kind() == ground.KindControlPlane {
		pods = "Pods are created here and never run. Pillion is a process, so `pillion status` finds no replica, and `helm --wait` and `helm test` wait in vain."
	}
	return fmt.Sprintf(`%[1]s, %[2]s
Pillion is installed in namespace %[3]s, with the template %[4]s; other templates:
  helm upgrade %[5]s charts/pillion -n %[3]s --reset-then-reuse-values --set 'library={%[4]s,vault-agent}'
%[6]s
export KUBECONFIG=%[7]s PATH=%[8]s:$PATH
`, g.Kind(), g.Versions(), ground.Namespace, library, ground.Release, pods, s.path("kubeconfig"), s.path("bin"))
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
