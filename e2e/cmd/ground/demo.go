package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// demo shows on a ground of its own what a cluster admin, a team and a pod's author do,
// and checks what comes of it. The ground is removed at the end, whatever happens.
func demo(ctx context.Context, checkout ground.Checkout) (err error) {
	var acts []act
	if err := yaml.UnmarshalStrict(actsYAML, &acts); err != nil {
		return fmt.Errorf("reading demo.yaml: %w", err)
	}
	began := time.Now()
	heading("A Kubernetes on this machine")
	g, err := ground.Start(ctx, checkout, ground.FromEnvironment(), os.Stdout)
	if err != nil {
		return err
	}
	defer func() {
		removal := time.Now()
		err = errors.Join(err, g.Close())
		fmt.Printf("\nremoved in %.1f s; all of it took %.1f s\n", time.Since(removal).Seconds(), time.Since(began).Seconds())
	}()
	up := time.Now()
	s := stage{ctx: ctx, g: g, dir: string(checkout)}
	if err := s.install(); err != nil {
		return err
	}
	fmt.Printf("Pillion ready, %.1f s after the start of helm\n", time.Since(up).Seconds())
	for _, a := range acts {
		if a.OnNode && g.Kind() != ground.KindNode {
			continue
		}
		heading(a.Heading)
		for _, step := range a.Steps {
			if err := s.expect(step); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\nfrom the running control plane to here: %.1f s\n", time.Since(up).Seconds())
	return nil
}

func heading(text string) { fmt.Printf("\n== %s\n", text) }

// stage is where the demo's commands run.
type stage struct {
	ctx context.Context
	g   ground.Ground
	dir string
}

// An act is a part of the demo. Some need a node, whose images are stand-ins: see e2e/registry.
type act struct {
	Heading string
	OnNode  bool
	Steps   []step
}

// A step is a command for a shell. A line of its output has all the words of Want; alone, it is
// the only one.
type step struct {
	Command, Want string
	Alone         bool
}

//go:embed demo.yaml
var actsYAML []byte

func (s stage) install() error {
	heading("The cluster admin installs Pillion")
	// As in ground.InstallArgs, written as a person would.
	command := "helm install pillion charts/pillion -n pillion-system --create-namespace --set 'library={fluent-bit}'"
	if s.g.Kind() == ground.KindNode {
		command += " --wait"
	}
	if _, err := s.do(command); err != nil || s.g.Kind() != ground.KindNode {
		return err
	}
	return s.expect(step{Command: "kubectl -n pillion-system get pods", Want: "pillion 1/1 Running"})
}

// makeNamespace begins the command that makes a namespace, whose name follows.
const makeNamespace = "kubectl create namespace "

// do prints a command and runs it in a shell, as somebody with the ground's KUBECONFIG
// and PATH would. It waits for what is installed, and for what the controller manager puts into a
// new namespace.
func (s stage) do(command string) (string, error) {
	fmt.Printf("$ %s\n", command)
	cmd := exec.CommandContext(s.ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = s.dir, s.g.Env()
	out, err := cmd.CombinedOutput()
	os.Stdout.Write(out)
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", command, err)
	case strings.HasPrefix(command, "helm install"):
		err = s.g.Rollout(s.ctx, ground.Namespace)
	}
	if namespace, made := strings.CutPrefix(command, makeNamespace); made && err == nil {
		_, err = ground.Run(s.ctx, s.g, "kubectl", "-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	}
	return string(out), err
}

// expect is do, and an error if the output is not as the step wants it.
func (s stage) expect(step step) error {
	out, err := s.do(step.Command)
	if err != nil {
		return err
	}
	lines := slices.Collect(strings.Lines(out))
	has := func(line string) bool {
		return !slices.ContainsFunc(strings.Fields(step.Want), func(word string) bool { return !strings.Contains(line, word) })
	}
	if step.Want != "" && !slices.ContainsFunc(lines, has) || step.Alone && len(lines) != 1 {
		return fmt.Errorf("%s: no line of the output, or not the only one, has all of: %s", step.Command, step.Want)
	}
	return nil
}
