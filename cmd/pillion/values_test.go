package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/internal/errtest"
)

//go:generate go test . -run TestTheReferenceOfValuesIsUpToDate -update

const (
	valuesPage     = "../../docs/reference/values.md"
	moreValuesPage = "../../docs/reference/more-values.md"
)

const valuesIntroduction = "# Values that installations set\n\n" +
	"This page is for admins.\nIt lists values of the Helm chart with their defaults; [other values](more-values.md) are for special clusters.\n" +
	"A misspelt name is an error.\n" +
	"To change a value later, keep the others with `--reset-then-reuse-values` (Helm 3.14), or give your whole file of values:\n\n" +
	"    helm upgrade pillion charts/pillion -n pillion-system --reset-then-reuse-values --set replicas=3\n"

const moreValuesIntroduction = "# Values for metrics, networks and special clusters\n\n" +
	"This page is for admins.\nIt lists the rest of the Helm chart's values. Their defaults are right elsewhere, and [the usual values](values.md) come first.\n"

// partMark is the line of values.yaml above the values of the second page.
const partMark = "# Part 2: the values that special clusters and rules need. The defaults are right everywhere else.\n\n"

// commonValues are the values of the first part of values.yaml, in their order.
var commonValues = []string{
	"library", "templates", "parameterDefaults", "templateValues", "image", "global", "replicas", "resources", "priorityClassName",
	"excludedNamespaces", "enforcement", "rbac", "certs", "metrics", "networkPolicy",
}

// firstPageValues is how many of them are on the first page of the reference.
const firstPageValues = 13

// TestTheReferenceOfValuesIsUpToDate holds docs/reference/values.md and more-values.md to the comments of the chart's values.
func TestTheReferenceOfValuesIsUpToDate(t *testing.T) {
	text, err := os.ReadFile(chart + "values.yaml")
	errtest.ExpectNone(t, err)
	var file yaml.Node
	errtest.ExpectNone(t, yaml.Unmarshal(text, &file))
	first, second := *file.Content[0], *file.Content[0]
	first.Content, second.Content = first.Content[:2*firstPageValues], second.Content[2*firstPageValues:]
	for i, name := range commonValues {
		if got := file.Content[0].Content[2*i].Value; got != name {
			t.Errorf("value %d of values.yaml is %s, want %s: the values that installations set come first", i+1, got, name)
		}
	}
	writePage := func(path, introduction string, values *yaml.Node) {
		var page strings.Builder
		page.WriteString(introduction)
		writeValues(t, &page, values, nil)
		transcript.Generated(t, path, "go generate ./cmd/pillion", page.String(), *update)
	}
	writePage(valuesPage, valuesIntroduction, &first)
	writePage(moreValuesPage, moreValuesIntroduction, &second)
}

// writeValues writes a section for each value of a chart, with a list of the values below it.
func writeValues(t *testing.T, page *strings.Builder, mapping *yaml.Node, path []string) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		full := append(path[:len(path):len(path)], key.Value)
		comment := pageName.ReplaceAllString(prose(strings.TrimPrefix(key.HeadComment, partMark)), "[$2](../$1/$2)")
		group := value.Kind == yaml.MappingNode && value.Style != yaml.FlowStyle
		name := "`" + strings.Join(full, ".") + "`"
		switch {
		case len(path) == 0:
			fmt.Fprintf(page, "\n## %s\n\n", name)
			if !group {
				fmt.Fprintf(page, "Default: %s\n\n", shortValue(t, value))
			}
			page.WriteString(comment)
			if group && comment != "" {
				page.WriteString("\n")
			}
		case !group:
			fmt.Fprintf(page, "- %s (%s)%s\n", name, shortValue(t, value), inItem(comment))
		case comment != "":
			fmt.Fprintf(page, "- %s%s\n", name, inItem(comment))
		}
		if group {
			writeValues(t, page, value, full)
		}
	}
}

// inItem returns a comment as the rest of an item of a list.
func inItem(comment string) string {
	if comment == "" {
		return ""
	}
	return ": " + strings.ReplaceAll(strings.TrimSpace(comment), "\n", "\n  ")
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
	errtest.ExpectNone(t, err)
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
