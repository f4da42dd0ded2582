package cases_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/lint/cases"
	"github.com/pillion-dev/pillion/templates"
)

// An example is a template of a folder below examples.
type example struct {
	name, file, text string
	cases            int
}

// examplesOf are the templates of a folder, by name. Each compiles without a warning, has a case, and
// passes its cases.
func examplesOf(t *testing.T, folder string) []*example {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	errtest.ExpectNone(t, err)
	var all []*example
	var list []cases.Template
	for _, file := range files {
		data, err := os.ReadFile(file)
		errtest.ExpectNone(t, err)
		documents := templates.ParseFile(data)
		if len(documents) != 1 {
			t.Fatalf("%s has %d documents", file, len(documents))
		}
		if _, warnings, err := templates.Compile(data, templates.Options{Source: file}); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, warnings %q", file, err, warnings)
		}
		all = append(all, &example{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), file: file, text: string(data)})
		list = append(list, cases.Template{File: file, Document: documents[0]})
	}
	results, err := cases.Run(t.Context(), list, cases.Options{Whole: []string{folder}})
	errtest.ExpectNone(t, err)
	for _, r := range results {
		for _, problem := range r.Problems {
			t.Errorf("%s: %s", r.Case, problem)
		}
		for _, e := range all {
			if e.name == r.Template {
				e.cases++
			}
		}
	}
	for _, e := range all {
		if e.cases == 0 {
			t.Errorf("%s has no case, or another name than its file", e.file)
		}
	}
	return all
}

func TestTheDocsShowTheExamplesThatAreTested(t *testing.T) {
	for folder, page := range map[string]string{"cookbook": "how-to/recipes.md", "own-webhooks": "how-to/retire-a-webhook.md", "kinds": "reference/kinds.md"} {
		wantPieces(t, "../../docs/"+page, examplesOf(t, "../../examples/"+folder))
	}
}

// wantPieces compares a page with examples. It links to each, and below a comment with its path it
// may show pieces of its text, with the line "# …" between two.
func wantPieces(t *testing.T, page string, shown []*example) {
	t.Helper()
	text, err := os.ReadFile(page)
	errtest.ExpectNone(t, err)
	for _, e := range shown {
		if !strings.Contains(string(text), "]("+e.file+")") {
			t.Errorf("%s has no link to %s", page, e.file)
		}
		_, after, _ := strings.Cut(string(text), "<!-- "+strings.TrimPrefix(e.file, "../../")+" -->\n```yaml\n")
		block, _, _ := strings.Cut(after, "```\n")
		for piece := range strings.SplitSeq(block, "# …\n") {
			if !strings.Contains("\n"+e.text, "\n"+piece) {
				t.Errorf("%s shows lines that %s has not:\n%s", page, e.file, piece)
			}
		}
	}
}
