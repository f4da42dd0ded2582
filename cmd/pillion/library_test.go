package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

//go:generate go test . -run TestTheReferenceOfTheLibraryIsUpToDate -update

const libraryIntroduction = `# The library

For admins who choose templates, and teams that use them: each template inside Pillion's binary.
An admin serves some of them, and a namespace or a pod asks for them by name.
[Library settings](library-settings.md) has defaults for all, images from a mirror, and other injectors' annotations.

    helm upgrade pillion charts/pillion -n pillion-system --reset-then-reuse-values --set 'library={fluent-bit,vault-agent}'
    kubectl annotate namespace shop pillion.dev/inject=fluent-bit
    pillion params fluent-bit            # the parameters, with each pattern
    pillion library show fluent-bit      # the manifest, to start a template of your own from

` + "`library` is the whole list: name those that you have, too.\nPod Security is the strictest standard that a restricted pod still meets with the template, with only the required parameters set.\n" +
	"All sidecars are native ones: they start before the app and end after it, and a Job with them finishes.\n" +
	"All are for Linux; a pod for Windows goes without ([operating systems](sidecartemplate.md#operating-systems)).\n" +
	"In one pod, `vault-agent` starts first, and `ca-bundle` and `environment` come last.\n\n"

// TestTheReferenceOfTheLibraryIsUpToDate holds docs/reference/library.md to the templates: what
// 'pillion library list' prints, with the parameters, then the comment and the parameters of each.
func TestTheReferenceOfTheLibraryIsUpToDate(t *testing.T) {
	var table, b strings.Builder
	table.WriteString("| name | what it does | parameters (required ones in bold) | Pod Security | ports |\n| --- | --- | --- | --- | --- |\n")
	for _, name := range library.Names() {
		manifest, err := library.Get(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		template, err := libraryTemplate(name, templates.Options{})
		if err != nil {
			t.Fatal(err)
		}
		entry, err := describe(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		comment, _, _ := strings.Cut(string(manifest), "apiVersion:")
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", name, strings.ReplaceAll(strings.TrimSpace(commentMark.ReplaceAllString(comment, "")), "*", `\*`))
		needed, err := neededParameters(t.Context(), template)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, p := range template.Parameters() {
			key := "`" + strings.TrimPrefix(p.Annotation, name+"."+templates.DefaultPrefix+"/") + "`"
			writeLibraryParameter(&b, p, key, needed[p.Name])
			if needed[p.Name] {
				key = "**" + key + "**"
			}
			keys = append(keys, key)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", name, entry.description, strings.Join(keys, " "), entry.podSecurity, cmp.Or(strings.Join(entry.ports, ", "), "-"))
	}
	transcript.Generated(t, "../../docs/reference/library.md", "go generate ./cmd/pillion", libraryIntroduction+table.String()+b.String(), *update)
}

// writeLibraryParameter writes an item with what a parameter means and can be. Patterns are left to
// 'pillion params'.
func writeLibraryParameter(b *strings.Builder, p templates.Parameter, key string, required bool) {
	allowed := exampleInAllowed.ReplaceAllString(patternInAllowed.ReplaceAllString(p.Allowed, "text"), "")
	about := []string{strings.ToUpper(allowed[:1]) + allowed[1:]}
	switch {
	case required:
		about = append(about, "required")
	case len(p.Default) > 0:
		about = append(about, "default `"+explain.Text(p.Default)+"`")
	}
	if !slices.Contains(p.SetBy, v1alpha1.Pod) {
		about = append(about, "not set by pods")
	}
	description := strings.NewReplacer("*", `\*`, ". ", ".\n  ").Replace(p.Description)
	fmt.Fprintf(b, "- %s: %s\n  %s.\n", key, description, strings.Join(about, "; "))
}

var (
	commentMark      = regexp.MustCompile(`(?m)^# ?`)
	patternInAllowed = regexp.MustCompile(`text that matches .* as a whole, at most [0-9]+ characters long`)
	exampleInAllowed = regexp.MustCompile(` such as [^,;]*`)
)

func TestTheChartAcceptsTheNamesOfTheLibrary(t *testing.T) {
	var schema struct {
		Properties struct {
			Library struct {
				Items struct{ Enum []string }
			}
		}
	}
	readChart(t, "values.schema.json", &schema)
	if diff := gocmp.Diff(library.Names(), schema.Properties.Library.Items.Enum); diff != "" {
		t.Errorf("the chart's names of library templates (-want +got):\n%s", diff)
	}
}
