package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	action  = regexp.MustCompile(`\{\{.*?\}\}`)     // one of a chart's template
	command = regexp.MustCompile(`(?m)^ {2,}\S.*$`) // an indented line of the notes
)

// What the program prints, and the comments and notes of the chart, are in the language of the pages.
func TestTheProgramSpeaksAsThePagesDo(t *testing.T) {
	read := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "e2e" || name == "docs" || name == "testdata" || name != ".." && name[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			for _, said := range literals(t, path) {
				read++
				if phrase := phrases.FindString(said); phrase != "" {
					t.Errorf("%s: say it otherwise than by %q: %s", path, phrase, said)
				}
			}
		case path == "../charts/pillion/values.yaml", name == "NOTES.txt":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			said := action.ReplaceAllString(command.ReplaceAllString(string(text), ""), "NAME")
			if name == "values.yaml" {
				said = comments(string(text))
			}
			for _, f := range findings(said) {
				t.Errorf("%s: %s", path, f)
			}
		}
		return nil
	})
	if err != nil || read < 1000 {
		t.Errorf("%d texts were read: %v", read, err)
	}
}

// literals returns the texts of a file's string literals, without those that are no sentences.
func literals(t *testing.T, path string) (all []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && strings.Count(text, " ") > 1 {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// comments returns the comments of a file of values as paragraphs.
func comments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
		switch {
		case strings.HasPrefix(comment, "  "): // an example, or a list of values
			b.WriteString("\n- " + strings.TrimSpace(comment) + "\n")
		case ok:
			b.WriteString(comment + "\n")
		default:
			b.WriteString("\n")
		}
	}
	return b.String()
}
