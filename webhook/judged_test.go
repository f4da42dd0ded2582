package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// A pod's author may have made a mistake: then the stable version refuses the pod as well.
func TestOnlyWhatTheStableVersionAcceptsIsRefusedByACanary(t *testing.T) {
	canary := strings.NewReplacer("{name: shipper}\nspec:\n", "{name: shipper-next}\nspec:\n  canary: {of: shipper, percent: 100}\n  validations: [{name: v, expression: \"!('old' in pod.metadata.?labels.orValue({}))\", message: no label old}]\n").Replace(logShipper)
	set := templatestest.Set(t, logShipper, canary)
	var canaries []string
	f := newFixture(t, func(o *parts) {
		o.Templates = func() *templates.Set { return set }
		o.Judged = func(_ *templates.Set, _ string, _ map[string]any, out injector.Outcome) {
			for _, refused := range out.Refusals {
				canaries = append(canaries, refused.Canary)
			}
		}
	})
	for name, c := range map[string]struct {
		metadata string
		want     string
	}{
		"a mistake of the pod's":              {`,"labels":{},"annotations":{"shipper.pillion.dev/log-level":"loud"}`, "[]"},
		"a mistake of the canary's":           {`,"labels":{"old":""}`, "[shipper-next]"},
		"a mistake of both":                   {`,"labels":{"old":""},"annotations":{"shipper.pillion.dev/nope":"1"}`, "[]"},
		"a mistake with another template":     {`,"labels":{"old":""},"annotations":{"pillion.dev/inject":"shipper,nope"}`, "[]"},
		"an earlier call, and the canary's":   {`,"labels":{"old":""},"annotations":{"pillion.dev/status":"{\"v\":1}"}`, "[shipper-next]"},
		"a pod that both accept, as a canary": {`,"labels":{}`, "[]"},
	} {
		canaries = nil
		answer := decodeAnswer(t, f.post(t, reviewOf(v1Version, c.metadata, false))).Response
		if got := fmt.Sprint(canaries); got != c.want || answer.Allowed == (name != "a pod that both accept, as a canary") {
			t.Errorf("%s: refused by the canaries %s; want %s (%+v)", name, got, c.want, answer.Result)
		}
	}
}

// Another webhook may have changed what the canary gives: its author could not.
func TestAFinalPodThatIsNotTheCanarysIsRefusedByIt(t *testing.T) {
	canary := strings.NewReplacer("  match: {namespaceSelector: {matchLabels: {team: shop}}}\n  required: true\n", "  canary: {of: audit, percent: 100}\n", "{name: audit}", "{name: audit-next}", "audit:1", "audit:2").Replace(audit)
	set := templatestest.Set(t, audit, canary)
	var refused injector.Outcome
	f := newFixture(t, func(o *parts) {
		withAudit(t)(o)
		o.Templates = func() *templates.Set { return set }
		o.Judged = func(_ *templates.Set, _ string, _ map[string]any, out injector.Outcome) { refused = out }
	})
	if r := decodeAnswer(t, postTo(t, f.verify, reviewOf(v1Version, "", false))).Response; r.Allowed || len(refused.Refusals) != 1 || refused.Refusals[0].Canary != "audit-next" {
		t.Errorf("%+v: %+v", r.Result, refused.Refusals)
	}
}
