package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/readme"
)

// walk runs the commands of the README and of docs/ as they stand there, one after the other. Each of
// [readme.Walks] has a control plane of its own, which is removed. The commands of all other pages
// follow those of the first walk, and may fail, since what they are about may not be there. No
// command takes away what another one has set up, except where its section says so.
func walk(ctx context.Context, checkout ground.Checkout) error {
	others, err := fs.Glob(os.DirFS(string(checkout)), "docs/*/*.md")
	if err != nil {
		return err
	}
	for _, w := range readme.Walks {
		others = slices.DeleteFunc(others, func(page string) bool { return slices.Contains(w.Pages, page) })
	}
	for _, w := range readme.Walks {
		if err := walkPages(ctx, checkout, w, others); err != nil {
			return err
		}
		others = nil
	}
	return nil
}

func walkPages(ctx context.Context, checkout ground.Checkout, w readme.Walk, others []string) (err error) {
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
	s, known := stage{ctx: ctx, g: g, dir: string(checkout)}, map[string]string{}
	for _, command := range w.Before {
		if _, err := s.do(command); err != nil {
			return err
		}
	}
	for _, page := range slices.Concat(w.Pages, others) {
		text, err := os.ReadFile(checkout.Path(page))
		if err != nil {
			return err
		}
		commands, strict := readme.Commands(string(text)), slices.Contains(w.Pages, page)
		if strict {
			commands = slices.DeleteFunc(commands, notWalked)
		} else {
			commands = slices.DeleteFunc(commands, noClusters)
		}
		if err := s.page(page, commands, strict, known); err != nil {
			return err
		}
	}
	return nil
}

// written is what the pages write, relative to the checkout.
var written = []string{"my-templates", "my-values.yaml", "shop.yaml"}

// takingAway are the sections whose commands take away what others have set up.
var takingAway = []string{"Clean up", "The way back", "Uninstall"}

// page runs commands of a page. Known is what has been set up before. Unless it is strict, a command
// may fail, but not an upgrade.
func (s stage) page(page string, commands []readme.Command, strict bool, known map[string]string) error {
	section := ""
	for _, command := range commands {
		if section != command.Section {
			section = command.Section
			heading(page + ": " + section)
		}
		if err := s.walk(command); err != nil {
			if strict || strings.HasPrefix(command.Text, "helm upgrade") && !strings.Contains(command.Text, " -f ") {
				return fmt.Errorf("%s, %s: %w", page, section, err)
			}
			fmt.Println(err)
		}
		if slices.Contains(takingAway, section) {
			clear(known)
			continue
		}
		after, err := s.setUp()
		if err != nil {
			return err
		}
		for _, what := range slices.Sorted(maps.Keys(known)) {
			_, key, _ := strings.Cut(what, " ")
			if after[what] != known[what] && !strings.Contains(command.Text, key+"=") {
				return fmt.Errorf("%s, %s: %s takes away what another command has set up: %s was %q, and is now %q", page, section, command.Text, what, known[what], after[what])
			}
		}
		clear(known)
		maps.Copy(known, after)
	}
	return nil
}

// setUp returns what commands have set up: the release's values, an item of a list each, the
// templates, and the annotations by which namespaces ask, each by its kind and its key.
func (s stage) setUp() (map[string]string, error) {
	found := map[string]string{}
	out, err := ground.Run(s.ctx, s.g, "helm", "get", "values", ground.Release, "-n", ground.Namespace, "-o", "json")
	if err != nil {
		return nil, err
	}
	var values any
	if err := json.Unmarshal([]byte(out), &values); err != nil {
		return nil, fmt.Errorf("reading the values of the release: %w", err)
	}
	flatten("", values, found)
	for _, get := range [][]string{
		{"namespaces", "-o", `jsonpath={range .items[?(@.metadata.annotations.pillion\.dev/inject)]}{.metadata.name} asks for {.metadata.annotations.pillion\.dev/inject}{"\n"}{end}`},
		{"sct", "-l", "app.kubernetes.io/managed-by!=Helm", "-o", "name"},
	} {
		out, err := ground.Run(s.ctx, s.g, "kubectl", append([]string{"get"}, get...)...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			found[strings.TrimSpace(line)] = "there"
		}
	}
	return found, nil
}

func flatten(key string, value any, into map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			flatten(strings.TrimPrefix(key+"."+name, "."), below, into)
		}
	case []any:
		for _, item := range v {
			into[fmt.Sprintf("value %s has %v", key, item)] = "there"
		}
	default:
		into["value "+key] = fmt.Sprint(v)
	}
}

// placeholder is a word that a reader replaces.
var placeholder = regexp.MustCompile(`\b(POD|[A-Z]{4,})\b`)

// notWalked reports whether a command is run by make demo, on a node, or by a person only.
func notWalked(c readme.Command) bool {
	return c.Section == readme.Demo || !c.Script && placeholder.MatchString(c.Text) || slices.Contains(needRunningPods, c.Text)
}

// needRunningPods are commands that wait for pods, or succeed after others do: pods never run on a control plane.
var needRunningPods = []string{"kubectl -n shop rollout status deployment/web", "pillion rollout shop --dry-run", "pillion rollout shop"}

// noClusters reports whether a test of its own runs a command, or it is none for a cluster.
func noClusters(c readme.Command) bool {
	return c.Console || c.Script || notWalked(c) || !regexp.MustCompile(`^(helm|kubectl|pillion) [^$]*$`).MatchString(c.Text)
}

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
