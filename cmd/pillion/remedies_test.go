package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// verb is what a format has in the place of a value.
var verb = regexp.MustCompile(`%(\[\d+\])?[.\d]*[a-zA-Z]`)

// A command is a remedy if it changes something; others look, or are named without saying what to do.
var (
	command = regexp.MustCompile(`^(kubectl %|(kubectl|helm|pillion)( -n \S+)? [a-z])`)
	looking = regexp.MustCompile(`^(kubectl|helm|pillion)( -n \S+)? (get|describe|logs|port-forward|top|auth|explain|version|cluster-info|config|status|lint|inject|uninject|params|library|fn|check|rollout status)\b|^kubectl pillion explain|--dry-run(=server.*)?$|^(kubectl|helm) [a-z]+$|^pillion policy$`)
	spans   = regexp.MustCompile("`` (.+?) ``|`([^`]+)`")

	codeBlock = regexp.MustCompile("(?s)```.*?```")
)

// changes reports whether a text is a command that changes something.
func changes(text string) bool {
	return command.MatchString(text) && (!looking.MatchString(text) || strings.Contains(text, "| kubectl "))
}

// remediesOfCheck are the commands in the source of check, with … for what differs.
func remediesOfCheck(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../inspect/check/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			var text string
			switch n := n.(type) {
			case *ast.BinaryExpr:
				text, _ = joinedText(n)
			case *ast.BasicLit:
				text, _ = joinedText(n)
			default:
				return true
			}
			if changes(text) {
				found[strings.TrimSpace(verb.ReplaceAllString(text, "…"))] = true
			}
			return false
		})
	}
	return found
}

// joinedText is what an expression of literals and others says, with %s for the others.
func joinedText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, okX := joinedText(e.X)
		y, okY := joinedText(e.Y)
		if e.Op == token.ADD && (okX || okY) {
			return x + y, true
		}
	}
	return "%s", false
}

// remediesOfPage are the commands that a page names in its prose and its tables. Blocks show how to look.
func remediesOfPage(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for l := range strings.Lines(codeBlock.ReplaceAllString(string(text), "")) {
		for _, span := range spans.FindAllStringSubmatch(l, -1) {
			if text := strings.ReplaceAll(span[1]+span[2], `\|`, "|"); changes(text) {
				found[text] = true
			}
		}
		if block, ok := strings.CutPrefix(strings.TrimRight(l, "\n"), "    "); ok && changes(block) {
			found[block] = true
		}
	}
	return found
}

// Every remedy that check or a page names is in the table, with the damage and with the test that
// runs it against the damage; and the table has no other.
func TestEveryRemedyHasATest(t *testing.T) {
	const table = "../../e2e/testdata/remedies.md"
	named := remediesOfCheck(t)
	pages, err := filepath.Glob("../../docs/troubleshoot/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../../docs/concepts/when-pillion-fails.md", "../../docs/concepts/faults.md", "../../docs/concepts/required-policy.md", "../../docs/how-to/switch-off.md") {
		maps.Copy(named, remediesOfPage(t, page))
	}
	tests := map[string]bool{}
	for _, pattern := range []string{"../../e2e/*_test.go", "*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllStringSubmatch(string(text), -1) {
				tests[m[1]] = true
			}
		}
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for l := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(l), `\|`, "\x00"), " | ")
		if len(cells) != 3 || !strings.Contains(cells[0], "`") {
			continue
		}
		remedy := strings.ReplaceAll(strings.Trim(cells[0], "`| "), "\x00", "|")
		listed[remedy] = true
		if !named[remedy] {
			t.Errorf("%s lists a remedy that nothing names: %s", table, remedy)
		}
		for _, test := range strings.Split(strings.Trim(cells[2], "`| "), "`, `") {
			if !tests[test] {
				t.Errorf("%s: there is no test %s for %s", table, test, remedy)
			}
		}
	}
	for remedy := range named {
		if !listed[remedy] {
			t.Errorf("%s lacks a row with the test that runs this remedy:\n| `%s` | DAMAGE | `TEST` |", table, strings.ReplaceAll(remedy, "|", `\|`))
		}
	}
}
