package main

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/inspect/state"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

func TestStatusShowsCanariesWithTheirShareStateAndWorkloads(t *testing.T) {
	set := templates.NewSet([]templates.Entry{
		{Name: "side", Template: templatestest.Compile(t, `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side}, spec: {inject: {spec: {containers: [{name: side, image: "side:1"}]}}}}`)},
		{Name: "side-next", Template: templatestest.Compile(t, `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side-next}, spec: {canary: {of: side, percent: 10}, inject: {spec: {containers: [{name: side, image: "side:2"}]}}}}`)},
	})
	seen := state.Canary{Stopped: true, Workloads: map[string]map[string]int{"canary": {"failing": 2, "healthy": 1}, "stable": {"failing": 0, "healthy": 9}}}
	all := []state.Replica{
		{Answers: true, State: state.State{Canaries: map[string]state.Canary{"side-next": seen, "other": {}}}},
		{Answers: true, State: state.State{Canaries: map[string]state.Canary{"side-next": {}, "other": {}}}},
		{},
	}
	lines := func(only string) string {
		var b strings.Builder
		writeCanaries(&b, canariesOf(all, set, only))
		return strings.Join(strings.Fields(b.String()), " ")
	}
	const header, of = "CANARY OF SHARE STATE WORKLOADS WITH IT WITH THE STABLE VERSION ", "side-next side 10 % stopped on 1 of 2 replicas 3, 2 of them failing 9, 0 of them failing"
	if got := lines(""); got != header+"other - - in force unknown unknown "+of {
		t.Errorf("all: %s", got)
	}
	for _, only := range []string{"side", "side-next"} {
		if got := lines(only); got != header+of {
			t.Errorf("%s: %s", only, got)
		}
	}
	if got := lines("nothing"); got != "" {
		t.Errorf("of another template: %s", got)
	}
}
