package templates

import (
	"errors"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/internal/tabletest"
)

// A message about what is not there, or is of another kind, has the author's expression in the
// form that works. The form works: it is compiled and rendered in the place of the wrong one.
func TestAMessageShowsTheFormThatWorks(t *testing.T) {
	const parameters = "parameters: [{name: list, type: list, items: string, default: [a, b]}, {name: map, type: map, items: string, default: {a: b}}, {name: text, type: string, default: x}, {name: any, type: json, default: [1]}]\n"
	for _, c := range tabletest.Rows(t, "testdata/tables/forms.txt") {
		message, form, _ := strings.Cut(c.Want(), " || ")
		form, fails := strings.CutSuffix(form, "(fails)")
		form = strings.TrimSpace(form)
		_, _, err := Compile(manifestOf(parameters+c.Input), Options{})
		var broken *CompileError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), message) || !strings.Contains(err.Error(), form) {
			t.Errorf("%s:\n got %v\nwant %s; %s", c.Name, err, message, form)
			continue
		}
		_, form, _ = strings.Cut(form, "write ")
		form, _, _ = strings.Cut(form, " or ${")
		form = strings.TrimSuffix(strings.TrimPrefix(form, "${"), "}")
		if fails || strings.HasPrefix(form, "[\"") {
			continue
		}
		if _, _, err := Compile(manifestOf(parameters+strings.Replace(c.Input, c.Name, form, 1)), Options{}); err != nil {
			t.Errorf("%s: the form %s does not work: %v", c.Name, form, err)
		}
	}
}
