package inspect_test

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/inspect/state"
)

//go:embed testdata/pods.yaml
var ownPods string

func TestReplicasAreRunningPodsThatAreNotBeingDeleted(t *testing.T) {
	for selector, want := range map[string]string{"": "running", "app.kubernetes.io/instance=running": "running", "app.kubernetes.io/instance=other": ""} {
		c := inspecttest.Cluster(t, ownPods, inspecttest.Options{Place: inspect.Place{Namespace: "own", Selector: selector}})
		replicas, notRunning, err := c.FindReplicas(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range replicas {
			names = append(names, r.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("with the selector %q the replicas are %q, want %q", selector, got, want)
		}
		if selector == "" && !slices.Equal(notRunning, []string{"not running: evicted: Failed: Evicted", "not running: pending: Pending: ImagePullBackOff: no such image"}) {
			t.Errorf("of the other pods is said %q", notRunning)
		}
	}
}

// The API server's proxy returns a pod's answer unchanged. Where it does not reach the pod, its own
// answer says why.
func TestAReplicaSaysWhyItIsNotReady(t *testing.T) {
	for body, want := range map[string]string{
		"not ready:\ncertificates: secret own/ca: not found\ntemplates: not read yet": "not ready: one: certificates: secret own/ca: not found\nnot ready: one: templates: not read yet",
		`{"kind":"Status","message":"no endpoints"}`:                                  "not ready: one: no endpoints",
		"<html>": "not ready: one: 503",
	} {
		one := inspect.NewReplica("one", func(_ context.Context, path string) ([]byte, error) { return []byte(body), errors.New("503") })
		if got := strings.Join(inspect.Problems("own", inspect.AskAll(t.Context(), []inspect.Replica{one})), "\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	gone := inspect.NewReplica("gone", inspect.GetURL("http://127.0.0.1:1"))
	if all := inspect.AskAll(t.Context(), []inspect.Replica{gone}); all[0].Missing == "" || all[0].Answers {
		t.Errorf("%+v", all)
	}
	if got := inspect.Problems("own", nil); len(got) != 1 || !strings.Contains(got[0], "namespace own") {
		t.Errorf("without replicas: %q", got)
	}
}

// What a namespace names in vain is no failure of Pillion's.
func TestTemplatesThatNamespacesNameInVainAreWarnedOf(t *testing.T) {
	one := state.Replica{Name: "one", Answers: true, State: state.State{UnknownTemplates: map[string]int{"fluent-bit": 5, "(others)": 2}, Broken: []string{"lost"}}}
	want := []string{
		"warning: one: other templates: 2 namespaces name them, and they are not there", "warning: one: template fluent-bit: 5 namespaces name it, and it is not there, so their pods are refused",
		"warning: one: template lost: its newest manifest cannot be used, or is gone; its log says why",
	}
	if got := inspect.Warnings([]state.Replica{one}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
