package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// A scene is a command and what it printed.
type scene struct {
	comment, command, output string
	failed                   bool
}

// scenes are the commands of the README's first sidecar.
var scenes = []scene{
	{comment: "An admin installs Pillion with a template of its library", command: "helm install pillion charts/pillion -n pillion-system --create-namespace --set 'library={fluent-bit}'"},
	{comment: "A team annotates its namespace, and creates pods", command: makeNamespace + "shop"},
	{command: "kubectl annotate namespace shop pillion.dev/inject=fluent-bit"},
	{command: "kubectl -n shop run web --image=nginx"},
	{command: "kubectl -n shop run verbose --image=nginx --annotations=fluent-bit.pillion.dev/log-level=debug"},
	{command: "kubectl -n shop run alone --image=nginx --annotations=pillion.dev/inject=false"},
	{command: "kubectl -n shop get pods -o custom-columns='POD:.metadata.name,SIDECAR:.spec.initContainers[*].name'"},
	{comment: "A wrong value is refused, with what is allowed", command: "kubectl -n shop run loud --image=nginx --annotations=fluent-bit.pillion.dev/log-level=loud", failed: true},
	{comment: "Why has a pod no sidecar?", command: "pillion explain -n shop pod/alone"},
}

// pictures draws the scenes, with the output of real commands, as docs/images/first-five-minutes.svg.
func pictures(ctx context.Context, checkout ground.Checkout) (err error) {
	options := ground.FromEnvironment()
	options.Kind = ground.KindControlPlane
	g, err := ground.Start(ctx, checkout, options, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	stage := stage{ctx: ctx, g: g, dir: string(checkout)}
	for i := range scenes {
		s := &scenes[i]
		out, err := stage.do(s.command)
		if (err != nil) != s.failed {
			return fmt.Errorf("%s: error %v, want one: %t", s.command, err, s.failed)
		}
		s.output = strings.TrimRight(out, "\n")
		switch {
		case strings.HasPrefix(s.command, "helm"):
			// The notes are for an admin, and the picture is of the first lines.
			s.output, _, _ = strings.Cut(s.output, "\nNAMESPACE:")
		case strings.HasPrefix(s.command, "kubectl annotate"):
			time.Sleep(2 * time.Second) // as a person would; Pillion labels the namespace meanwhile
		}
	}
	return os.WriteFile(checkout.Path("docs/images/first-five-minutes.svg"), []byte(drawTerminal(scenes)), 0o644)
}
