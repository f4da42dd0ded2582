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

// last is the section of the README that takes Pillion away.
const last = "Remove"

// walk runs the commands of the README, then those of the pages that it links to, then those of the
// others, one after the other, on a control plane of its own, and removes it. No command may take away what another one has set up.
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

	others, err := fs.Glob(os.DirFS(string(checkout)), "docs/*/*.md")
	if err != nil {
		return err
	}
	pages := readme.Pages(string(text))
	for _, page := range others {
		if !slices.Contains(pages, page) {
			pages = append(pages, page)
		}
	}
	s, known := stage{ctx: ctx, g: g, dir: string(checkout)}, map[string]string{}
	commands := slices.DeleteFunc(readme.Commands(string(text)), notWalked)
	remove := slices.IndexFunc(commands, func(c readme.Command) bool { return c.Section == last })
	if err := s.page("README.md", commands[:remove], known); err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(checkout.Path(page))
		if err != nil {
			return err
		}
		if err := s.page(page, slices.DeleteFunc(readme.Commands(string(text)), recorded), known); err != nil {
			return err
		}
	}
	return s.page("README.md", commands[remove:], known)
}

// page runs commands of a page. Known is what has been set up before. A command of docs/ may fail, since
// what it is about may not be there; but not an upgrade.
func (s stage) page(page string, commands []readme.Command, known map[string]string) error {
	section := ""
	for _, command := range commands {
		if section != command.Section {
			section = command.Section
			heading(page + ": " + section)
		}
		if err := s.walk(command); err != nil {
			if page == "README.md" || strings.HasPrefix(command.Text, "helm upgrade") && !strings.Contains(command.Text, " -f ") {
				return fmt.Errorf("%s, %s: %w", page, section, err)
			}
			fmt.Println(err)
		}
		if section == last {
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
		{"sct", "-l", "!pillion.dev/mirror", "-o", "name"},
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

// notWalked tells what is walked elsewhere (make demo shows the first section) or by a
// person only.
func notWalked(c readme.Command) bool {
	return c.Section == "Three commands" || c.Section == "Develop" || placeholder.MatchString(c.Text)
}

// recorded tells which lines of a page are not walked: a test of its own runs what stands in a console,
// and others are no commands for a cluster.
func recorded(c readme.Command) bool {
	return c.Console || placeholder.MatchString(c.Text) || !regexp.MustCompile(`^(helm|kubectl|pillion) [^$]*$`).MatchString(c.Text)
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
	if want != "" && plain(string(out)) != want {
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

// plain is a text with each white space one blank: the README breaks long lines.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }
