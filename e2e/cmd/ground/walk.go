package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/readme"
)

// walk runs the commands of the README and of pages of docs/ as they stand there, one after the other.
// Each of [readme.Walks] has a control plane of its own, which is removed.
func walk(ctx context.Context, checkout ground.Checkout) error {
	for _, w := range readme.Walks {
		if err := walkPages(ctx, checkout, w); err != nil {
			return err
		}
	}
	return nil
}

func walkPages(ctx context.Context, checkout ground.Checkout, w readme.Walk) (err error) {
	options := ground.FromEnvironment()
	options.Kind = ground.KindControlPlane
	heading("A Kubernetes on this machine")
	g, err := ground.Start(ctx, checkout, options, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	defer func() {
		for _, name := range written {
			err = errors.Join(err, os.RemoveAll(checkout.Path(name)))
		}
	}()
	follow, end := context.WithCancel(ctx)
	defer end()
	go g.(*ground.ControlPlane).Follow(follow, ground.Namespace)
	s := stage{ctx: ctx, g: g, dir: string(checkout)}
	for _, command := range w.Before {
		if _, err := s.do(command); err != nil {
			return err
		}
	}
	for _, page := range w.Pages {
		text, err := os.ReadFile(checkout.Path(page))
		if err != nil {
			return err
		}
		section := ""
		for _, command := range slices.DeleteFunc(readme.Commands(string(text)), notWalked) {
			if section != command.Section {
				section = command.Section
				heading(page + ": " + section)
			}
			if err := s.walk(command); err != nil {
				return fmt.Errorf("%s, %s: %w", page, section, err)
			}
		}
	}
	return nil
}

// written is what the pages write, relative to the checkout.
var written = []string{"my-templates", "my-values.yaml", "shop.yaml", "templates.yaml"}

// placeholder is a word that a reader replaces.
var placeholder = regexp.MustCompile(`\b(POD|[A-Z]{4,})\b`)

// notWalked reports whether a command is run by make demo, on a node, or by a person only.
func notWalked(c readme.Command) bool {
	return c.Section == readme.Demo || !c.Script && placeholder.MatchString(c.Text) || slices.Contains(needRunningPods, c.Text)
}

// needRunningPods are commands that wait for pods, or succeed after others do: pods never run on a control plane.
var needRunningPods = []string{"kubectl -n shop rollout status deployment/web", "pillion rollout shop --dry-run", "pillion rollout shop"}

// needsReplicas are commands that ask running pods, which a control plane has none of.
var needsReplicas = []string{"pillion status", "pillion check"}

func (s stage) walk(c readme.Command) error {
	command := c.Text
	if strings.HasPrefix(command, "helm install") {
		command = strings.Replace(command, " --wait", "", 1) // its pods never run here
	}
	out, err := s.do(command)
	want := plain(c.Shown)
	if want != "" && plain(out) != want {
		return fmt.Errorf("%s prints another text than the page shows", command)
	}
	refused := strings.HasPrefix(want, "Error")
	for _, start := range needsReplicas {
		refused = refused || strings.HasPrefix(command, start)
	}
	if refused != (err != nil) {
		return fmt.Errorf("%s: error %v, want one: %t", command, err, refused)
	}
	return nil
}

// plain is a text with each white space one blank: pages break long lines.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }
