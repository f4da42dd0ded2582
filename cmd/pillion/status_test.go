package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/webhook/state"
)

// statusText returns what status prints of replicas, and whether all is well.
func statusText(replicas []state.Replica) (text string, sound bool) {
	r := reportOn("own", replicas, inspect.Target{})
	return r.text(inspect.Target{}), r.Sound
}

func TestAReplicaThatFailsIsNotSound(t *testing.T) {
	failing := state.Replica{Name: "one", Answers: true}
	failing.Certificates.Problems, failing.FailingLabels = []string{"secret: secret own/pillion-ca"}, map[string]int{"pillion.dev/required": 3}
	out, sound := statusText([]state.Replica{failing})
	if sound || !strings.Contains(out, "failing: one: secret: secret own/pillion-ca; its log says why\n") || !strings.Contains(out, "label pillion.dev/required: cannot be written on 3 namespaces") {
		t.Errorf("sound %t:\n%s", sound, out)
	}
	if out, sound := statusText([]state.Replica{{Name: "one", Answers: true}}); !sound {
		t.Errorf("a replica that lacks nothing:\n%s", out)
	}
	if out, sound := statusText(nil); sound {
		t.Errorf("without replicas all is well:\n%s", out)
	}
}

func TestStatusShowsWhatReplicasSayOfThemselves(t *testing.T) {
	replicas := []state.Replica{
		{Name: "a", Answers: true, State: state.State{Templates: map[string]string{"proxy": "01"}, CacheAgeSeconds: map[string]float64{"namespaces": 0.25, "templates": 61}, EnforcementProven: new(true)}},
		{Name: "b", Answers: true, State: state.State{Templates: map[string]string{"proxy": "02"}, Broken: []string{"proxy"}, EnforcementProven: new(false)}},
		{Name: "c", Answers: true},
	}
	var out strings.Builder
	writeReplicas(&out, replicas)
	want := `
TEMPLATE  HASH                             APPLIED BY
proxy     01                               1 of 3 replicas
proxy     02 (a newer version is broken)   1 of 3 replicas

REPLICA  AGE OF CACHES                   ENFORCEMENT
a        namespaces 300ms, templates 1m1s  proven
b        -                               not proven
c        -                               unknown
`
	if got := strings.Join(strings.Fields(out.String()), " "); got != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

// The container's port admin says where a replica has probes and metrics.
func TestReplicasAreAskedOnThePortThatTheyListenOn(t *testing.T) {
	const manifest = "{apiVersion: v1, kind: Pod, metadata: {name: pillion-%d, namespace: own}, spec: {containers: [{name: mesh, ports: [{name: admin, containerPort: 1}]}, {name: pillion%s}]}, status: {phase: Running}}"
	var manifests, want []string
	for i, c := range []struct {
		ports string
		port  int
	}{
		{"", 8080},
		{", ports: [{name: webhook, containerPort: 8443}, {name: admin, containerPort: 9100}]", 9100},
		{", ports: [{name: other, containerPort: 9500}]", 8080},
	} {
		manifests = append(manifests, fmt.Sprintf(manifest, i, c.ports))
		want = append(want, fmt.Sprintf("pillion-%d:%d/readyz", i, c.port), fmt.Sprintf("pillion-%d:%d%s", i, c.port, state.Path))
	}
	var asked []string
	cluster := inspecttest.Cluster(t, strings.Join(manifests, "\n---\n"), inspecttest.Options{Place: inspect.Place{Namespace: "own"}})
	cluster.Proxy = func(_ context.Context, pod string, port int, path string) ([]byte, error) {
		asked = append(asked, fmt.Sprintf("%s:%d%s", pod, port, path))
		return []byte("{}"), nil
	}
	if _, err := cluster.Replicas(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestTheReportOfCheckIsWrittenAsJSON(t *testing.T) {
	report := check.Report{Outcomes: []check.Outcome{{Result: check.OK}, {Result: check.Failed, Findings: []check.Finding{{Result: check.Failed, Message: "no"}}}}}
	var out bytes.Buffer
	if err := writeCheckJSON(&out, report, false); err != nil {
		t.Fatal(err)
	}
	var back checkReport
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Sound || !back.Judged || back.Counts[check.Failed] != 1 || len(back.Checks) != 2 {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestResultsOfCheckArePaintedWhereColoursAreWanted(t *testing.T) {
	report := check.Report{Outcomes: []check.Outcome{{Result: check.Failed, Findings: []check.Finding{{Result: check.Failed, Message: "no"}}}}}
	for _, colour := range []bool{true, false} {
		var out bytes.Buffer
		if err := check.Write(&out, report, false, colour); err != nil || strings.Contains(out.String(), "\x1b[31mfailed") != colour || strings.Contains(out.String(), "\x1b") != colour {
			t.Errorf("colours %t: %v %q", colour, err, &out)
		}
	}
}
