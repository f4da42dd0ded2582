package cases_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/lint/cases"
	"github.com/pillion-dev/pillion/templates"
)

//go:generate go test . -run TestTheDocsShowTheExamplesThatAreTested -update

var update = flag.Bool("update", false, "write the examples and the tables of the docs anew")

// An example is a template of a folder below examples, or of the library.
type example struct {
	name, file, text string
	cases            int
}

// examplesOf are the templates of a folder, by name. Each compiles without a warning, has a case, and
// passes its cases, which are beside the folder's files or in another folder.
func examplesOf(t *testing.T, folder, beside string) []*example {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*example
	var list []cases.Template
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents := templates.ParseFile(data)
		if len(documents) != 1 {
			t.Fatalf("%s has %d documents", file, len(documents))
		}
		if _, warnings, err := templates.Compile(data, templates.Options{Source: file}); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, warnings %q", file, err, warnings)
		}
		all = append(all, &example{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), file: file, text: string(data)})
		list = append(list, cases.Template{File: filepath.Join(beside, filepath.Base(file)), Document: documents[0]})
	}
	results, err := cases.Run(t.Context(), list, cases.Options{Whole: []string{beside}})
	if err != nil {
		t.Fatal(err)
	}
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

// lines counts the lines of a manifest that are neither empty nor a comment.
func (e *example) lines() int {
	n := 0
	for line := range strings.Lines(e.text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// features are what a template uses of the language, by what its text shows.
var features = []struct {
	name string
	in   *regexp.Regexp
}{
	{"match", regexp.MustCompile(`(?m)^  match:`)},
	{"matchConditions", regexp.MustCompile(`(?m)^  matchConditions:`)},
	{"validations", regexp.MustCompile(`(?m)^  validations:`)},
	{"variables", regexp.MustCompile(`(?m)^  variables:`)},
	{"containerSecurity", regexp.MustCompile(`(?m)^  containerSecurity:`)},
	{"files", regexp.MustCompile(`(?m)^  files:`)},
	{"other injectors' annotations", regexp.MustCompile(`(?m)\b(vendor|connect-inject'|linkerd\.io/inject')`)},
	{"$each", regexp.MustCompile(`\$each`)},
	{"$for", regexp.MustCompile(`\$for`)},
	{"$if", regexp.MustCompile(`\$if`)},
	{"$position", regexp.MustCompile(`\$position`)},
	{"$append", regexp.MustCompile(`\$append`)},
	{"$onConflict", regexp.MustCompile(`\$onConflict`)},
}

func (e *example) uses() string {
	var used []string
	for _, f := range features {
		if f.in.MatchString(e.text) {
			used = append(used, f.name)
		}
	}
	return strings.Join(used, ", ")
}

// inLibrary are the kinds that are templates of the library.
var inLibrary = []string{
	"cloud-sql-proxy", "daprd", "fluent-bit", "git-sync", "istio-proxy", "oauth2-proxy", "opentelemetry-java", "otel-collector", "pgbouncer", "statsd-exporter", "vault-agent",
}

func TestTheDocsShowTheExamplesThatAreTested(t *testing.T) {
	cookbook, own := examplesOf(t, "../../examples/cookbook", "../../examples/cookbook"), examplesOf(t, "../../examples/kinds", "../../examples/kinds")
	var kinds strings.Builder
	all := slices.DeleteFunc(examplesOf(t, "../../charts/pillion/library", "../../charts"), func(e *example) bool { return !slices.Contains(inLibrary, e.name) })
	all = append(all, own...)
	slices.SortFunc(all, func(a, b *example) int { return cmp.Compare(a.name, b.name) })
	if len(all) < 21 || len(all) != len(inLibrary)+len(own) {
		t.Errorf("%d kinds", len(all))
	}
	kinds.WriteString("| kind | where | lines | cases | uses |\n| --- | --- | --- | --- | --- |\n")
	for _, e := range all {
		where := "library"
		if slices.Contains(own, e) {
			where = "examples"
		}
		fmt.Fprintf(&kinds, "| [%s](%s) | %s | %d | %d | %s |\n", e.name, e.file, where, e.lines(), e.cases, e.uses())
	}
	wantPieces(t, "../../docs/how-to/recipes.md", cookbook)
	wantPieces(t, "../../docs/how-to/retire-a-webhook.md", examplesOf(t, "../../examples/own-webhooks", "../../examples/own-webhooks"))
	wantTable(t, "../../docs/reference/kinds.md", kinds.String())
}

// wantPieces compares a page with examples. It links to each, and below a comment with its path it
// may show pieces of its text, with the line "# …" between two.
func wantPieces(t *testing.T, page string, shown []*example) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
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

// wantTable compares a page with the table that it has between its marks.
func wantTable(t *testing.T, page, table string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?s)(<!-- lines -->\n).*?(<!-- end -->)`).ReplaceAllLiteralString(string(data), "<!-- lines -->\n"+table+"<!-- end -->")
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(want, string(data)); diff != "" {
		t.Errorf("%s is stale (-want +got); `go generate ./lint/cases` writes it:\n%s", page, diff)
	}
}
