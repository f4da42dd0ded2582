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
)

//go:embed testdata/pods.yaml
var ownPods string

func TestReplicasAreRunningPodsThatAreNotBeingDeleted(t *testing.T) {
	c := inspecttest.Cluster(t, ownPods, inspecttest.Options{Place: inspect.Place{Namespace: "own"}})
	replicas, notRunning, err := c.FindReplicas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range replicas {
		names = append(names, r.Name())
	}
	if got := strings.Join(names, " "); got != "running" {
		t.Errorf("the replicas are %q", got)
	}
	if !slices.Equal(notRunning, []string{"not running: evicted: Failed: Evicted", "not running: pending: Pending: ImagePullBackOff: no such image"}) {
		t.Errorf("of the other pods is said %q", notRunning)
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
		if got := strings.Join(inspect.Problems("own", inspect.GetStates(t.Context(), []inspect.Replica{one})), "\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	gone := inspect.NewReplica("gone", inspect.GetURL("http://127.0.0.1:1"))
	if all := inspect.GetStates(t.Context(), []inspect.Replica{gone}); all[0].Missing == "" || all[0].Answers {
		t.Errorf("%+v", all)
	}
	if got := inspect.Problems("own", nil); len(got) != 1 || !strings.Contains(got[0], "namespace own") {
		t.Errorf("without replicas: %q", got)
	}
}
