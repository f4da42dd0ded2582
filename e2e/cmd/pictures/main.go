// Command pictures draws the first five minutes of a Pillion as an animated terminal. It starts a control
// plane of its own, and removes it at the end.
//
// In: charts/pillion. Out: docs/images/first-five-minutes.svg with the output of real commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

func main() { measure.Main("pictures", run) }

func run(ctx context.Context) (err error) {
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		return err
	}
	options := ground.FromEnvironment()
	options.Kind = ground.KindControlPlane
	g, err := ground.Start(ctx, checkout, options, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	scenes, err := record(ctx, g, checkout)
	if err != nil {
		return err
	}
	return os.WriteFile(checkout.Path("docs/images/first-five-minutes.svg"), []byte(drawTerminal(scenes)), 0o644)
}

// A scene is a command and what it printed.
type scene struct {
	comment, command, output string
	failed                   bool
}

// record runs the commands of the README's first sidecar.
func record(ctx context.Context, g ground.Ground, checkout ground.Checkout) ([]scene, error) {
	scenes := []scene{
		{comment: "An admin installs Pillion with a template of its library", command: "helm install pillion charts/pillion -n pillion-system --create-namespace --set 'library={fluent-bit}'"},
		{comment: "A team annotates its namespace, and creates pods", command: "kubectl create namespace shop"},
		{command: "kubectl annotate namespace shop pillion.dev/inject=fluent-bit"},
		{command: "kubectl -n shop run web --image=nginx"},
		{command: "kubectl -n shop run verbose --image=nginx --annotations=fluent-bit.pillion.dev/log-level=debug"},
		{command: "kubectl -n shop run alone --image=nginx --annotations=pillion.dev/inject=false"},
		{command: "kubectl -n shop get pods -o custom-columns='POD:.metadata.name,SIDECAR:.spec.initContainers[*].name'"},
		{comment: "A wrong value is refused, with what is allowed", command: "kubectl -n shop run loud --image=nginx --annotations=fluent-bit.pillion.dev/log-level=loud", failed: true},
		{comment: "Why has a pod no sidecar?", command: "pillion explain -n shop pod/alone"},
	}
	for i := range scenes {
		s := &scenes[i]
		cmd := exec.CommandContext(ctx, "bash", "-c", s.command)
		cmd.Dir, cmd.Env = string(checkout), g.Env()
		out, err := cmd.CombinedOutput()
		if (err != nil) != s.failed {
			return nil, fmt.Errorf("%s: %v\n%s", s.command, err, out)
		}
		s.output = strings.TrimRight(string(out), "\n")
		fmt.Printf("$ %s\n%s\n", s.command, s.output)
		switch {
		case strings.HasPrefix(s.command, "helm"):
			// The notes are for an admin, and the picture is of the first lines.
			s.output, _, _ = strings.Cut(s.output, "\nNAMESPACE:")
			if err := g.Rollout(ctx, ground.Namespace); err != nil {
				return nil, err
			}
		case strings.HasPrefix(s.command, "kubectl create namespace"):
			if _, err := ground.Run(ctx, g, "kubectl", "-n", "shop", "wait", "--for=create", "serviceaccount/default", "--timeout=30s"); err != nil {
				return nil, err
			}
		case strings.HasPrefix(s.command, "kubectl annotate"):
			time.Sleep(2 * time.Second) // as a person would; Pillion labels the namespace meanwhile
		}
	}
	return scenes, nil
}
