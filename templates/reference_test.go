package templates_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

var update = flag.Bool("update", false, "write the example of files anew")

func TestTheReferenceForAuthorsNamesEachFieldDirectiveBoundAndRule(t *testing.T) {
	var pages strings.Builder
	for _, name := range []string{"fields.md", "parameters.md", "inject.md", "lint-rules.md"} {
		page, err := os.ReadFile("../docs/reference/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(page)
	}
	var lines []string
	for _, field := range fieldsOf(reflect.TypeFor[v1alpha1.SidecarTemplateSpec](), "") {
		lines = append(lines, "`"+field+"` (")
	}
	for _, name := range directive.Names() {
		lines = append(lines, "### `"+name+"`\n")
	}
	for _, bound := range []int{expression.MaxExpressionCost, expression.MaxCost, expression.MaxIterations, expression.MaxBytes, expression.MaxExpressions, expression.MaxSource, manifest.MaxBytes} {
		lines = append(lines, fmt.Sprintf(" | %d |\n", bound))
	}
	for _, r := range lint.Rules {
		lines = append(lines, fmt.Sprintf("- `%s` (%s): %s\n", r.Name, r.Severity, strings.ReplaceAll(r.Says, ". ", ".\n  ")))
	}
	for _, line := range lines {
		if !strings.Contains(pages.String(), line) {
			t.Errorf("docs/reference has no line with %q", line)
		}
	}
}

// fieldsOf returns the paths of the fields below a type, in the API's own types.
func fieldsOf(typ reflect.Type, prefix string) (all []string) {
	list := ""
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		if typ.Kind() == reflect.Slice {
			list = "[]"
		}
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[v1alpha1.Parameter]().PkgPath() || typ == reflect.TypeFor[v1alpha1.Items]() {
		return nil
	}
	if prefix != "" {
		prefix += list + "."
	}
	for i := range typ.NumField() {
		name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if strings.Contains(options, "inline") {
			all = append(all, fieldsOf(typ.Field(i).Type, strings.TrimSuffix(prefix, "."))...)
			continue
		}
		all = append(append(all, prefix+name), fieldsOf(typ.Field(i).Type, prefix+name)...)
	}
	return all
}

// filesExample is a template's spec in the reference.
const filesExample = `
parameters: [{name: logLevel, type: string, enum: [info, debug], default: info}]
files:
  agent.yaml: |
    level: ${params.logLevel}
    namespace: ${toJson(namespaceObject.metadata.name)}
inject:
  spec:
    initContainers:
    - name: agent
      image: registry.example.com/agent:1
      restartPolicy: Always
      args: [--config, /etc/agent/agent.yaml]
      volumeMounts: [{name: agent-files, mountPath: /etc/agent, readOnly: true}]
`

func TestTheExampleOfFilesCompiles(t *testing.T) {
	transcript.Recorded(t, "../docs/reference/sidecartemplate.md", "files", *update, func(string) string { return strings.TrimPrefix(filesExample, "\n") })
	text := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: agent}\nspec:" + strings.ReplaceAll(filesExample, "\n", "\n  ")
	if _, warnings, err := templates.Compile([]byte(text), templates.Options{}); err != nil || len(warnings) > 0 {
		t.Errorf("%v, %v", warnings, err)
	}
}
