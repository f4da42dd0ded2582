package merge

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates/podschema"
)

func TestAReplacedListKeepsTheTolerationsThatTheAPIServerWouldAddAgain(t *testing.T) {
	const notReady = "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}"
	const unreachable = "{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}"
	list := func(items ...string) string { return "[" + strings.Join(items, ", ") + "]" }
	for why, c := range map[string]struct{ pod, fragment, want string }{
		"both":                       {list("{key: a}", notReady, unreachable), list("{$patch: replace}", "{key: b}"), list("{key: b}", notReady, unreachable)},
		"one is covered":             {list(notReady, unreachable), list("{$patch: replace}", "{key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 5}"), list("{key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 5}", unreachable)},
		"another effect covers none": {list(notReady), list("{$patch: replace}", "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoSchedule}"), list("{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoSchedule}", notReady)},
		"everything is tolerated":    {list(notReady, unreachable), list("{$patch: replace}", "{operator: Exists}"), list("{operator: Exists}")},
		"the template has them":      {list(notReady, unreachable), list("{$patch: replace}", "{key: b}", unreachable, notReady), list("{key: b}", unreachable, notReady)},
		"the author's own seconds":   {list(strings.Replace(notReady, "300", "5", 1)), list("{$patch: replace}", "{key: b}"), list("{key: b}")},
		"the pod has none":           {"null", list("{$patch: replace}", "{key: b}"), list("{key: b}")},
		"all are taken away":         {list("{key: a}", notReady, unreachable), "", list(notReady, unreachable)},
		"only own are taken away":    {list("{key: a}"), "", "null"},
		"nothing is replaced":        {list("{key: a}", notReady, unreachable), list("{key: b}"), list("{key: a}", notReady, unreachable, "{key: b}")},
	} {
		fragment := "{spec: {tolerations: " + c.fragment + "}}"
		if c.fragment == "" {
			fragment = "{spec: {$unset: [tolerations]}}"
		}
		plan, err := Merge(t.Context(), parse(t, "{spec: {tolerations: "+c.pod+"}}"), []Fragment{{Template: "t", Object: parse(t, fragment)}}, statusKey)
		if err != nil {
			t.Errorf("%s: %v", why, err)
			continue
		}
		want := parse(t, "{list: "+c.want+"}")["list"]
		if got := objectOf(plan.Pod["spec"])["tolerations"]; string(podschema.Encode(got)) != string(podschema.Encode(want)) {
			t.Errorf("%s: %s, want %s", why, podschema.Encode(got), podschema.Encode(want))
		}
	}
}
