package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/webhook/state"
)

// statusText returns what status prints of replicas, and whether all is well.
func statusText(replicas []state.Replica) (text string, sound bool) {
	r := reportOn("own", replicas, inspect.Target{})
	return r.text(inspect.Target{}), r.Sound
}

func TestStatusNamesWhatIsMissingAndFails(t *testing.T) {
	const missing = `certificates: missing permission: patch mutatingwebhookconfigurations.admissionregistration.k8s.io pillion`
	failing := state.Replica{Name: "one", Answers: true}
	failing.Certificates.Problems, failing.FailingLabels = []string{"secret: secret own/pillion-ca"}, map[string]int{"pillion.dev/required": 3}
	for name, test := range map[string]struct {
		replicas []state.Replica
		want     []string
	}{
		"a permission": {[]state.Replica{{Name: "one", Answers: true, Missing: missing}}, []string{"not ready: one: " + missing}},
		"a ready one fails": {[]state.Replica{failing}, []string{
			"failing: one: secret: secret own/pillion-ca; its log says why\n", "failing: one: label pillion.dev/required: cannot be written on 3 namespaces, so they get no sidecars or are not enforced; its log says why",
		}},
		"no replicas": {nil, []string{"namespace own"}},
		"no answer":   {[]state.Replica{{Name: "gone", Missing: "connection refused"}}, []string{"not ready: gone: ", "unknown"}},
	} {
		out, sound := statusText(test.replicas)
		if sound {
			t.Errorf("%s: all is well", name)
		}
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the output lacks %q:\n%s", name, want, out)
			}
		}
	}
	if out, sound := statusText([]state.Replica{{Name: "one", Answers: true}}); !sound {
		t.Errorf("a replica that lacks nothing:\n%s", out)
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
	port := func(name string, number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: "webhook", ContainerPort: 8443}, {Name: name, ContainerPort: number}}
	}
	var manifests, want []string
	for i, c := range []struct {
		container corev1.Container
		port      int
	}{
		{corev1.Container{}, 8080},
		{corev1.Container{Ports: port("admin", 9100)}, 9100},
		{corev1.Container{Ports: port("other", 9500)}, 8080},
	} {
		c.container.Name = "pillion"
		name := fmt.Sprint("pillion-", i)
		text, err := json.Marshal(corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "own"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "mesh", Ports: port("admin", 1)}, c.container}},
		})
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, string(text))
		want = append(want, fmt.Sprintf("%s:%d/readyz", name, c.port), fmt.Sprintf("%s:%d%s", name, c.port, state.Path))
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
