package webhook

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
)

func TestEventsAreTheRefusalsOfAPodOrWhatItsCreatorIsWarnedOf(t *testing.T) {
	lacks := injector.TemplateOutcome{Name: "vault", Code: reason.Suspended, Why: "it is suspended", Requested: true}
	nothing := injector.TemplateOutcome{Name: "quiet", Code: reason.NothingToInject, Why: "it renders to nothing", Requested: true}
	injected := injector.TemplateOutcome{Name: "side", Code: reason.Injected, Requested: true}
	silent := injector.TemplateOutcome{Name: "other", Code: reason.ConditionFalse, Why: "it matches, and its condition is false"}
	bad := injector.TemplateOutcome{Name: "side", Code: reason.BadParameter, Why: "loud\nand\x1b worse", Requested: true}
	for name, c := range map[string]struct {
		out  injector.Outcome
		want []string
	}{
		"injected, nothing to say": {injector.Outcome{Allowed: true, Code: reason.Injected, Templates: []injector.TemplateOutcome{injected, silent}}, nil},
		"refused": {injector.Outcome{Code: bad.Code, Refusals: []injector.TemplateOutcome{bad, {Code: reason.BadAnnotation, Why: "empty"}}, Templates: []injector.TemplateOutcome{bad, lacks}, Warnings: []string{lacks.Warning(), "a warning"}},
			[]string{"BadParameter refused: template side: loud and  worse", "BadAnnotation refused: empty"}},
		"a template that lacks": {injector.Outcome{Allowed: true, Templates: []injector.TemplateOutcome{injected, lacks}, Warnings: []string{lacks.Warning()}},
			[]string{"Suspended: template vault: it is suspended"}},
		"warnings": {injector.Outcome{Allowed: true, Templates: []injector.TemplateOutcome{injected, nothing}, Warnings: []string{nothing.Warning(), "the pod's FOO stays", reason.UntrueLabel.Warning("a label"), "the pod's BAR stays"}},
			[]string{"NothingToInject told: without quiet: it renders to nothing", "UntrueLabel told: a label", "InjectionNote told: the pod's FOO stays; the pod's BAR stays"}},
	} {
		var got []string
		for _, e := range eventsOf(map[string]any{}, c.out) {
			got = append(got, fmt.Sprintf("%s%s: %s", e.Code, map[[2]bool]string{{true, false}: " refused", {false, true}: " told"}[[2]bool{e.Refused, e.Warned}], e.Message))
			if e.Pod == nil {
				t.Errorf("%s: an event without its pod", name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
	many := injector.Outcome{Allowed: true}
	for i := range 100 {
		many.Warnings = append(many.Warnings, reason.UntrueLabel.Warning(fmt.Sprint(i)))
	}
	if n := len(eventsOf(nil, many)); n != maxEvents {
		t.Errorf("%d events of one review", n)
	}
}
