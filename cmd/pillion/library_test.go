package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/docs/transcript"
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
// 'pillion library list' prints, then the comment and the parameters of each.
func TestTheReferenceOfTheLibraryIsUpToDate(t *testing.T) {
	code, table, errs := call(t, "", nil, "library", "list", "-o", "markdown")
	if code != exitDone {
		t.Fatal(errs)
	}
	var b strings.Builder
	b.WriteString(libraryIntroduction + table)
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
		for i, p := range template.Parameters() {
			writeLibraryParameter(&b, p, entry.parameters[i])
		}
	}
	transcript.Generated(t, "../../docs/reference/library.md", "go generate ./cmd/pillion", b.String(), *update)
}

// writeLibraryParameter writes an item with what a parameter means and can be. Patterns are left to
// 'pillion params'.
func writeLibraryParameter(b *strings.Builder, p templates.Parameter, shown libraryParameter) {
	allowed := exampleInAllowed.ReplaceAllString(patternInAllowed.ReplaceAllString(p.Allowed, "text"), "")
	about := []string{strings.ToUpper(allowed[:1]) + allowed[1:]}
	switch {
	case shown.required:
		about = append(about, "required")
	case len(p.Default) > 0:
		about = append(about, "default `"+plainJSON(p.Default)+"`")
	}
	if !slices.Contains(p.SetBy, v1alpha1.Pod) {
		about = append(about, "not set by pods")
	}
	description := strings.NewReplacer("*", `\*`, ". ", ".\n  ").Replace(p.Description)
	fmt.Fprintf(b, "- `%s`: %s\n  %s.\n", shown.key, description, strings.Join(about, "; "))
}

var (
	commentMark      = regexp.MustCompile(`(?m)^# ?`)
	patternInAllowed = regexp.MustCompile(`text that matches .* as a whole, at most [0-9]+ characters long`)
	exampleInAllowed = regexp.MustCompile(` such as [^,;]*`)
)

func TestTheChartAcceptsTheNamesOfTheLibrary(t *testing.T) {
	text, err := os.ReadFile("../../charts/pillion/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Library struct {
				Items struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(library.Names(), schema.Properties.Library.Items.Enum); diff != "" {
		t.Errorf("the chart's names of library templates (-want +got):\n%s", diff)
	}
}
