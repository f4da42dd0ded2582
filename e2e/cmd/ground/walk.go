package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/readme"
)

// walk runs the README's commands as they stand there, one after the other, on a control
// plane of its own, and removes it.
func walk(ctx context.Context, checkout ground.Checkout) (err error) {
	text, err := os.ReadFile(checkout.Path("README.md"))
	if err != nil {
		return err
	}
	options := ground.FromEnvironment()
	options.Kind = ground.KindControlPlane
	heading("A Kubernetes on this machine")
	g, err := ground.Start(ctx, checkout, options, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	defer os.Remove(checkout.Path("shop.yaml")) // which a command of the README writes
	follow, end := context.WithCancel(ctx)
	defer end()
	go g.(*ground.ControlPlane).Follow(follow, ground.Namespace)
	s, section := stage{ctx: ctx, g: g, dir: string(checkout)}, ""
	for _, command := range readme.Commands(string(text)) {
		if notWalked(command) {
			continue
		}
		if section != command.Section {
			section = command.Section
			heading(section)
		}
		if err := s.walk(command); err != nil {
			return fmt.Errorf("README.md, %s: %w", section, err)
		}
	}
	return nil
}

// placeholder is a word that a reader replaces.
var placeholder = regexp.MustCompile(`\b[A-Z]{4,}\b`)

// notWalked tells what is walked elsewhere (make demo shows the first section) or by a
// person only.
func notWalked(c readme.Command) bool {
	return c.Section == "Three commands" || c.Section == "Develop" || placeholder.MatchString(c.Text)
}

// needsReplicas are commands that ask running pods, which a control plane has none of.
var needsReplicas = []string{"pillion status", "pillion check", "pillion certs list"}

func (s stage) walk(c readme.Command) error {
	command := c.Text
	if strings.HasPrefix(command, "helm install") {
		command = strings.Replace(command, " --wait", "", 1) // its pods never run here
	}
	out, err := s.do(command)
	want := plain(c.Shown)
	if want != "" && plain(out) != want {
		return fmt.Errorf("%s prints another text than the README shows", command)
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

// plain is a text with each white space one blank: the README breaks long lines.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }
