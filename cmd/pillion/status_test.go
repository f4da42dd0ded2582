package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/webhook/state"
)

// statusText returns what status prints of replicas, and whether all is well.
func statusText(replicas []state.Replica) (text string, sound bool) {
	r := reportOn("own", replicas, inspect.Target{})
	return r.text(inspect.Target{}), r.Sound
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
