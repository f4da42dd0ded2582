package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pillion-dev/pillion/docs/transcript"
)

//go:generate go test . -run TestTheReferenceOfValuesIsUpToDate -update

const valuesPage = "../../docs/reference/values.md"

const valuesIntroduction = "# Values of the chart\n\n" +
	"For the admin: every value of the Helm chart, with its default and what it does.\n" +
	"A misspelt name is an error.\n" +
	"To change a value later, keep the others with `--reset-then-reuse-values` (Helm 3.14), or give your whole file of values:\n\n" +
	"    helm upgrade pillion charts/pillion -n pillion-system --reset-then-reuse-values --set replicas=3\n"

// commonValues are the values of the first part of values.yaml, in their order.
var commonValues = []string{
	"library", "templates", "parameterDefaults", "templateValues", "image", "global", "replicas", "resources", "priorityClassName",
	"excludedNamespaces", "enforcement", "rbac", "certs", "metrics", "networkPolicy",
}

// maxValues is how many values the chart has at most. A value stands where somebody can name its use.
const maxValues = 65

// TestTheReferenceOfValuesIsUpToDate holds docs/reference/values.md to the comments of the chart's values.
func TestTheReferenceOfValuesIsUpToDate(t *testing.T) {
	text, err := os.ReadFile(chart + "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString(valuesIntroduction)
	first, second := *file.Content[0], *file.Content[0]
	first.Content, second.Content = first.Content[:2*len(commonValues)], second.Content[2*len(commonValues):]
	for i, name := range commonValues {
		if got := first.Content[2*i].Value; got != name {
			t.Errorf("value %d of values.yaml is %s, want %s: the values that installations set come first", i+1, got, name)
		}
	}
	page.WriteString("\n## The values that installations set\n")
	writeValues(t, &page, &first, nil)
	page.WriteString("\n## The values that special clusters and rules need\n")
	writeValues(t, &page, &second, nil)
	transcript.Generated(t, valuesPage, "go generate ./cmd/pillion", page.String(), *update)
}

// writeValues writes a section for each value of a mapping, and those below it.
func writeValues(t *testing.T, page *strings.Builder, mapping *yaml.Node, path []string) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		full := append(path[:len(path):len(path)], key.Value)
		fmt.Fprintf(page, "\n%s `%s`\n", strings.Repeat("#", min(len(full)+2, 5)), strings.Join(full, "."))
		group := value.Kind == yaml.MappingNode && value.Style != yaml.FlowStyle
		if !group {
			fmt.Fprintf(page, "\nDefault: %s\n", shortValue(t, value))
		}
		if key.HeadComment != "" {
			page.WriteString("\n" + pageName.ReplaceAllString(prose(key.HeadComment), "[$2](../$1/$2)"))
		}
		if group {
			writeValues(t, page, value, full)
		}
	}
}

// pageName is how a comment names a page.
var pageName = regexp.MustCompile(`docs/([a-z-]+)/([a-z-]+\.md)`)

// shortValue is a value as one writes it, in a code span; a long list gives its length.
func shortValue(t *testing.T, value *yaml.Node) string {
	t.Helper()
	if len(value.Content) > 10 {
		return fmt.Sprintf("%d names, see values.yaml", len(value.Content))
	}
	bare := *value
	bare.HeadComment, bare.LineComment, bare.FootComment = "", "", ""
	text, err := yaml.Marshal(&bare)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + strings.TrimSpace(string(text)) + "`"
}

// prose is a comment as Markdown: lines that are indented in it are a block of code.
func prose(comment string) string {
	var out strings.Builder
	code := false
	for line := range strings.Lines(comment) {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimRight(line, "\n"), "#"), " ")
		if indented := strings.HasPrefix(line, "  "); indented != code && line != "" {
			code = indented
			if out.Len() > 0 {
				out.WriteByte('\n')
			}
		}
		if code {
			line = "  " + line
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}
