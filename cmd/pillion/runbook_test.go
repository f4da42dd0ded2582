package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
)

// An admin at night pastes what Pillion said into a search. The runbook has an entry for each
// message, under a heading that is its literal text. … stands for what differs.
const runbook = "../../docs/runbook.md"

// messages are what the server says, found by reading its source: literal texts as headings
// of the runbook have them, by the runbook's section.
type messages map[string]map[string]bool

// The runbook's sections of messages.
const (
	codes    = "Reason codes" // of injector/reason
	warnings = "Warnings"     // for who creates an object
	previews = "Previews"     // for who writes a workload or a namespace
	logged   = "The log"      // log.Warn and log.Error
	checks   = "Not ready"    // the names of the checks of readiness
	policies = "Policies"     // of the chart's admission policies
	servers  = "API servers"  // others' words, which are not in the source
)

// verb is what a format has in the place of a value, or a chart in that of a setting.
var verb = regexp.MustCompile(`%(\[\d+\])?[.\d]*[a-zA-Z]|\{\{.*?\}\}`)

// letters are what a message has; a separator has none.
var letters = regexp.MustCompile(`[a-z]{2}`)

// around is what stands around a message that has an entry of its own.
var around = []string{"template …: …: …", "namespace …: …", "and … more …", "pods of … are refused: … (…)"}

// add notes a message.
func (m messages) add(section, format string) {
	text := strings.Join(strings.Fields(verb.ReplaceAllString(format, "…")), " ")
	if !letters.MatchString(text) || slices.Contains(around, text) {
		return
	}
	if m[section] == nil {
		m[section] = map[string]bool{}
	}
	m[section][text] = true
}

// serverPackages are the folders of the packages of this module that the binary has.
func serverPackages(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-json=Dir,Module", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir    string
			Module *struct{ Main bool }
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return dirs
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && p.Module.Main {
			dirs = append(dirs, p.Dir)
		}
	}
}

// previewing are the folders of what previews say. Commands have other things to say.
var previewing = []string{"injector/keys", "injector/webhook", "offline/predict"}

// said reads the source of packages.
func said(t *testing.T, dirs []string) messages {
	t.Helper()
	m := messages{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			one, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, one)
		}
		m.read(parsed, slices.ContainsFunc(previewing, func(folder string) bool { return strings.HasSuffix(filepath.ToSlash(dir), folder) }))
	}
	return m
}

// source is a package's constants, by name.
type source map[string]string

func (s source) collect(file *ast.File) {
	for _, d := range file.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			values := spec.(*ast.ValueSpec)
			for i, name := range values.Names {
				if i < len(values.Values) {
					if text, ok := s.constant(values.Values[i]); ok {
						s[name.Name] = text
					}
				}
			}
		}
	}
}

// constant returns a text that is written in the source. Where only a part of it is, %s stands
// for the rest.
func (s source) constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.Ident:
		text, ok := s[e.Name]
		return text, ok
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := s.constant(e.X)
		right, also := s.constant(e.Y)
		switch {
		case e.Op != token.ADD || !ok && !also:
			return "", false
		case !ok:
			return "%s" + right, true
		case !also:
			return left + "%s", true
		}
		return left + right, true
	}
	return "", false
}

// texts are the texts of an expression that are not part of a longer one.
func (s source) texts(e ast.Node) []string {
	var found []string
	ast.Inspect(e, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			if text, ok := s.constant(e); ok {
				found = append(found, text)
				return false
			}
		}
		return true
	})
	return found
}

// read collects the messages of a package, and those of previews if it has some.
func (m messages) read(files []*ast.File, previewing bool) {
	s := source{}
	foretells := m.foretell
	if !previewing {
		foretells = func(source, ast.Expr) {}
	}
	for range 2 { // a constant may be made of later ones
		for _, file := range files {
			s.collect(file)
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				m.check(s, n, foretells)
			case *ast.CallExpr:
				m.call(s, n, foretells)
			case *ast.ReturnStmt: // a part of what is said
				for _, result := range n.Results {
					for _, text := range s.texts(result) {
						if previewing && strings.HasPrefix(text, "means ") {
							m.add(previews, text)
						}
					}
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if lastName(to) == "Says" && len(n.Rhs) == len(n.Lhs) {
						foretells(s, n.Rhs[i])
					}
				}
				if to := lastName(n.Lhs[0]); strings.EqualFold(to, "warnings") || to == "warning" {
					m.warn(s, n.Rhs[0])
				}
			}
			return true
		})
	}
}

// check collects the names of checks, lists of the type []webhook.Check, the texts of values of
// a type warning, and what troubles and findings say.
func (m messages) check(s source, list *ast.CompositeLit, foretells func(source, ast.Expr)) {
	if lastName(list.Type) == "warning" {
		for _, field := range list.Elts {
			if pair, ok := field.(*ast.KeyValueExpr); ok && lastName(pair.Key) == "text" {
				m.warn(s, pair.Value)
			}
		}
	}
	if of := lastName(list.Type); of == "Trouble" || of == "Finding" {
		for _, field := range list.Elts {
			if pair, ok := field.(*ast.KeyValueExpr); ok && lastName(pair.Key) == "Says" {
				foretells(s, pair.Value)
			}
		}
	}
	array, ok := list.Type.(*ast.ArrayType)
	if !ok {
		return
	}
	if of, ok := array.Elt.(*ast.SelectorExpr); !ok || of.Sel.Name != "Check" {
		return
	}
	for _, item := range list.Elts {
		for _, field := range item.(*ast.CompositeLit).Elts {
			if pair := field.(*ast.KeyValueExpr); pair.Key.(*ast.Ident).Name == "Name" {
				if name, ok := s.constant(pair.Value); ok {
					if m[checks] == nil {
						m[checks] = map[string]bool{}
					}
					m[checks][name+": …"] = true
				}
			}
		}
	}
}

// call collects what is logged, and what is appended to warnings.
func (m messages) call(s source, call *ast.CallExpr, foretells func(source, ast.Expr)) {
	if len(call.Args) == 0 {
		return
	}
	on, called := "", ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		called = f.Name
	case *ast.SelectorExpr:
		called = f.Sel.Name
		on = lastName(f.X)
	}
	switch {
	case called == "Warn" || called == "Error":
		m.log(s, call.Args[0])
	case (called == "WarnContext" || called == "ErrorContext") && len(call.Args) > 1:
		m.log(s, call.Args[1])
	case called == "say" || called == "breach":
		for _, arg := range call.Args {
			foretells(s, arg)
		}
	case called == "Warning", strings.EqualFold(on, "warnings"),
		called == "append" && strings.EqualFold(lastName(call.Args[0]), "warnings"):
		for _, arg := range call.Args {
			m.warn(s, arg)
		}
	}
}

// log collects the first argument of a logger's method. Functions of other packages with the
// name of one have another first argument.
func (m messages) log(s source, e ast.Expr) {
	if text, ok := s.constant(e); ok {
		m.add(logged, text)
	}
}

func (m messages) warn(s source, e ast.Expr) {
	for _, text := range s.texts(e) {
		if strings.Contains(text, " ") { // one word is the key of something
			m.add(warnings, text)
		}
	}
}

// foretell collects what a preview says. What a sentence only ends in is a part of it.
func (m messages) foretell(s source, e ast.Expr) {
	for _, text := range s.texts(e) {
		if strings.Contains(text, " ") && !strings.HasPrefix(text, ", ") && !strings.HasPrefix(text, "; ") && !strings.HasPrefix(text, " ") {
			m.add(previews, text)
		}
	}
}

// lastName is the name of a variable or a field.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// policyMessage is a message of an admission policy in the chart.
var policyMessage = regexp.MustCompile(`(?m)^ {4}message: (Pillion's .*)$|messageExpression: >-\n((?: {6}.*\n)+)|message: \{\{ printf "(.*?)" [.$]`)

// A CEL expression joins texts: to go on in the next line, and around a value.
var (
	goesOn = regexp.MustCompile(`" \+\s+"`)
	joined = regexp.MustCompile(`" \+\s+[^"].*?\s\+\s+"`)
)

func (m messages) readPolicies(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("../../charts/pillion/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range policyMessage.FindAllStringSubmatch(string(text), -1) {
			expression := joined.ReplaceAllString(goesOn.ReplaceAllString(strings.TrimSpace(found[2]), ""), "…")
			m.add(policies, found[1]+strings.Trim(expression, `"`)+found[3])
		}
	}
}

// An entry is a section of the runbook about one message.
type entry struct {
	line          int
	section, text string
	body          string
}

// heading is that of an entry: code, by one or two backquotes.
var heading = regexp.MustCompile("^#### (`+) ?(.+?) ?(`+)$")

func entriesOf(t *testing.T, page string) []entry {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), "\n## Messages\n")
	if !found {
		t.Fatalf("%s has no section Messages", page)
	}
	at := strings.Count(strings.TrimSuffix(string(text), part), "\n")
	part, _, _ = strings.Cut(part, "\n## ")
	var all []entry
	section := ""
	for line := range strings.Lines(part) {
		at++
		line = strings.TrimRight(line, "\n")
		name, isSection := strings.CutPrefix(line, "### ")
		switch {
		case isSection:
			section = name
		case strings.HasPrefix(line, "#### "):
			m := heading.FindStringSubmatch(line)
			if m == nil || m[1] != m[3] {
				t.Fatalf("%s:%d: the heading is no literal text: %s", page, at, line)
			}
			all = append(all, entry{line: at, section: section, text: m[2]})
		case len(all) > 0 && all[len(all)-1].section == section:
			all[len(all)-1].body += line + "\n"
		}
	}
	// Headings that follow each other have one text.
	for i := len(all) - 2; i >= 0; i-- {
		if strings.TrimSpace(all[i].body) == "" {
			all[i].body = all[i+1].body
		}
	}
	return all
}

// What an entry says, in this order. A remedy names a command, or another text to write.
var parts = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^- \*\*Cause:\*\* \S.*\.`), regexp.MustCompile(`(?m)^- \*\*Hurts:\*\* \S.*\.$`),
	regexp.MustCompile("(?m)^- \\*\\*Remedy:\\*\\* .*[`(].*$"),
}

func TestTheRunbookHasEveryMessageAndNoOther(t *testing.T) {
	said := said(t, serverPackages(t))
	said.readPolicies(t)
	said[codes] = map[string]bool{}
	for _, code := range reason.Codes() {
		said[codes][string(code)] = true
	}
	for section, least := range map[string]int{codes: 25, warnings: 18, logged: 22, checks: 5, policies: 9, previews: 15} {
		if len(said[section]) < least {
			t.Errorf("the source has %d messages for the section %s: the test does not find them", len(said[section]), section)
		}
	}
	has := messages{}
	for _, e := range entriesOf(t, runbook) {
		for _, part := range parts {
			if !part.MatchString(e.body) {
				t.Errorf("%s:%d: the entry has no part like %s", runbook, e.line, part)
			}
		}
		if e.section == servers {
			continue
		}
		if !said[e.section][e.text] {
			t.Errorf("%s:%d: no message of the source is, for the section %s: %s", runbook, e.line, e.section, e.text)
		}
		if has[e.section] == nil {
			has[e.section] = map[string]bool{}
		}
		if has[e.section][e.text] {
			t.Errorf("%s:%d: a second entry for: %s", runbook, e.line, e.text)
		}
		has[e.section][e.text] = true
	}
	for section, texts := range said {
		for text := range texts {
			if !has[section][text] {
				t.Errorf("%s, section %s, lacks an entry with the heading\n#### `%s`", runbook, section, text)
			}
		}
	}
}

// What the test above finds in a source, and what not.
func TestMessagesAreFoundInTheSource(t *testing.T) {
	const text = `package p
const stays = "the pod's own " + "value stays"
func f() {
	log.Warn("a first thing failed", "error", err)
	o.Logger.Error("a second thing " +
		"failed", "error", err)
	log.WarnContext(ctx, "a third thing failed")
	log.Info("nothing to see here")
	http.Error(w, "not for the log", 500)
	warning := fmt.Sprintf("template %s: %d ports", name, 2)
	d.result.Warnings = append(d.result.Warnings, fmt.Sprintf("the pod has %d of %q", 1, x))
	warnings = append(warnings, code.Warning("one more to look at: "+why))
	*w = append(*w, warning{at: at, text: stays, kept: "not this one"})
	names = append(names, "not one of the warnings")
	f.Says = fmt.Sprintf("means nothing: %s is %s", a, b)
	f.Says += "; and so on"
	p.add(Trouble{Source: Job, Says: "the Job " + name + " does not finish"})
	_ = []webhook.Check{{Name: "first"}, {Name: "in " + "use"}}
}`
	parsed, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := messages{}
	m.read([]*ast.File{parsed}, true)
	want := messages{
		logged:   {"a first thing failed": true, "a second thing failed": true, "a third thing failed": true},
		warnings: {"the pod has … of …": true, "one more to look at: …": true, "template …: … ports": true, "the pod's own value stays": true},
		checks:   {"first: …": true, "in use: …": true},
		previews: {"means nothing: … is …": true, "the Job … does not finish": true},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("found %v, want %v", m, want)
	}
}
