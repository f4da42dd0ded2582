package faults

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestARefusalIsPillionsOnlyWhereAnEntryOfItsIsNamed(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		err                      error
		refused, otherwise, away bool
	}{
		{apierrors.NewInternalError(errors.New(`failed calling webhook "enforced.pillion.dev": connection refused`)), true, false, false},
		{apierrors.NewForbidden(pods, "web", errors.New(`admission webhook "requested.pillion.dev" denied the request: no such template`)), true, false, false},
		{apierrors.NewInternalError(errors.New(`failed calling webhook "other.example.com": connection refused`)), false, true, false},
		{apierrors.NewForbidden(pods, "web", errors.New("exceeded quota: pillion.dev")), false, true, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false, false, true},
		{fmt.Errorf("sending: %w", &net.OpError{Op: "read", Err: errors.New("reset")}), false, false, true},
	} {
		refused, otherwise, away := Classify(c.err)
		if (refused != "") != c.refused || (otherwise != "") != c.otherwise || away != c.away {
			t.Errorf("%v: refused %q, otherwise %q, away %v", c.err, refused, otherwise, away)
		}
	}
}

func TestAPodIsJudgedByItsSidecars(t *testing.T) {
	t.Parallel()
	pod := func(names ...string) *corev1.Pod {
		p := loadPod()
		for _, n := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: n})
		}
		return p
	}
	l := &load{state: newState()}
	suspended := newState()
	suspended.suspended.Set(zero, true)
	for _, c := range []struct {
		kind  Kind
		state *state
		pod   *corev1.Pod
		want  verdict
	}{
		{Requested, l.state, pod(librarySidecar, clusterSidecar), good},
		{Requested, l.state, pod(librarySidecar), bare},
		{Requested, l.state, pod(), bare},
		{Requested, suspended, pod(librarySidecar), good},
		{Requested, suspended, pod(librarySidecar, clusterSidecar), wrong},
		{NeverAsked, l.state, pod(), good},
		{NeverAsked, l.state, pod(librarySidecar), wrong},
	} {
		l := &load{state: c.state}
		o := at(60, Outcome{Kind: c.kind})
		l.judge(&o, c.pod)
		if got := o.verdict(); got != c.want {
			t.Errorf("%d containers in a namespace of the kind %s count as %q, want %q", len(c.pod.Spec.InitContainers), c.kind, got, c.want)
		}
	}
}

func TestCallsAreCountedInTheAuditLog(t *testing.T) {
	t.Parallel()
	event := func(namespace, annotations string) string {
		return `{"objectRef":{"resource":"pods","namespace":"` + namespace + `"},"annotations":{` + annotations + `}}` + "\n"
	}
	called := `"mutation.webhook.admission.k8s.io/round_0_index_1":"{\"configuration\":\"pillion\",\"webhook\":\"requested.pillion.dev\",\"mutated\":false}"`
	failed := `"failed-open.mutation.webhook.admission.k8s.io/round_0_index_1":"requested.pillion.dev"`
	other := `"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"mesh\",\"webhook\":\"mesh.example.com\",\"mutated\":true}"`
	path := filepath.Join(t.TempDir(), "audit")
	first := event("never", other) + event("never", called) + event("elsewhere", called)
	if err := os.WriteFile(path, []byte(first+`{"half`), 0o600); err != nil {
		t.Fatal(err)
	}
	n, end, err := calls(path, "never", 0)
	if n != 1 || end != int64(len(first)) || err != nil {
		t.Errorf("%d calls until %d (%v), want 1 until %d", n, end, err, len(first))
	}
	if err := os.WriteFile(path, []byte(first+event("never", failed)+event("never", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, _, err := calls(path, "never", end); n != 1 || err != nil {
		t.Errorf("%d more calls (%v), want the one that failed", n, err)
	}
}

func TestAReplicaIsReadyWhenItsLogSaysSo(t *testing.T) {
	t.Parallel()
	const log = `2026-01-02T03:04:05.1Z stderr F {"time":"2026-01-02T03:04:05.1Z","msg":"starting"}
half
2026-01-02T03:04:05.4Z stderr F {"time":"2026-01-02T03:04:05.4Z","msg":"ready","after":300000000}
`
	if got, want := readyIn(bufio.NewScanner(strings.NewReader(log))), zero.Add(400*time.Millisecond); !got.Equal(want) {
		t.Errorf("ready at %s, want %s", got, want)
	}
}
