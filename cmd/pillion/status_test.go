package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/pillion-dev/pillion/clientset/clientsettest"
)

// newReplica returns a replica whose admin port is served by the test. missing says why the
// replica is not ready; empty if it is ready.
func newReplica(t *testing.T, missing string, published int) replica {
	t.Helper()
	end := time.Now().Add(48 * time.Hour).Unix()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/metrics":
			fmt.Fprintf(w, "pillion_certificate_expiry_timestamp_seconds %d\n", end)
			fmt.Fprintf(w, "pillion_certificate_published{configuration=\"pillion\",kind=\"MutatingWebhookConfiguration\"} %d\n", published)
			fmt.Fprintln(w, "pillion_certificate_rotations_total 3")
			fmt.Fprintln(w, "pillion_certificate_failures_total{operation=\"publish\"} 1\npillion_certificate_failures_total{operation=\"secret\"} 1")
		case missing != "":
			http.Error(w, "not ready:\n"+missing, http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return replica{name: "one", get: getURL(server.URL)}
}

func ownConfiguration(bundle []byte) *admissionv1.MutatingWebhookConfiguration {
	return calling("pillion", "own", "pillion", bundle)
}

// calling returns a configuration with one entry, which calls the Service.
func calling(name, namespace, service string, bundle []byte) *admissionv1.MutatingWebhookConfiguration {
	client := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: service}, CABundle: bundle}
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks:   []admissionv1.MutatingWebhook{{Name: "requested.pillion.dev", ClientConfig: client}},
	}
}

// aBundle returns a CA certificate in PEM.
func aBundle() []byte {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// naming returns a ready replica that names the configurations, by KIND/NAME. The value is 1
// for a configuration that verifies the replica, else 0.
func naming(name string, configurations map[string]int) replica {
	return replica{name: name, get: func(_ context.Context, path string) ([]byte, error) {
		var out bytes.Buffer
		for c, value := range configurations {
			kind, name, _ := strings.Cut(c, "/")
			if path == "/metrics" {
				fmt.Fprintf(&out, "pillion_certificate_published{configuration=%q,kind=%q} %d\n", name, kind, value)
			}
		}
		return out.Bytes(), nil
	}}
}

func TestStatusNamesAMissingPermissionAndFails(t *testing.T) {
	const missing = `certificates: missing permission: patch mutatingwebhookconfigurations.admissionregistration.k8s.io "pillion"`
	var out bytes.Buffer
	err := status(t.Context(), &out, clientsettest.Of(fake.NewClientset(ownConfiguration(nil))), "own", askAll(t.Context(), []replica{newReplica(t, missing, 0)}))
	if !errors.Is(err, errRefused) {
		t.Errorf("got %v, want errRefused", err)
	}
	for _, want := range []string{"not ready: one: " + missing, "none: its caBundle is empty", "0 of 1 replicas", "(in 4", " 3 ", " 2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
}

func TestStatusNamesALabelThatCannotBeKept(t *testing.T) {
	ready := newReplica(t, "", 1)
	for failing, want := range map[string]bool{"0": false, "3": true} {
		r := replica{name: "one", get: func(ctx context.Context, path string) ([]byte, error) {
			body, err := ready.get(ctx, path)
			if path == "/metrics" {
				body = append(body, "\npillion_namespaces_failing_label{label=\"pillion.dev/required\"} "+failing+"\n"...)
			}
			return body, err
		}}
		var out bytes.Buffer
		err := status(t.Context(), &out, clientsettest.Of(fake.NewClientset(ownConfiguration(aBundle()))), "own", askAll(t.Context(), []replica{r}))
		if said := strings.Contains(out.String(), "failing: one: label pillion.dev/required: cannot be written on 3 namespaces, so what it asks for is not done there; its log says why"); said != want || errors.Is(err, errRefused) != want {
			t.Errorf("with %s failing: %v\n%s", failing, err, &out)
		}
	}
}

func TestStatusSucceedsIfNothingIsMissing(t *testing.T) {
	bundle := aBundle()
	var out bytes.Buffer
	if err := status(t.Context(), &out, clientsettest.Of(fake.NewClientset(ownConfiguration(bundle))), "own", askAll(t.Context(), []replica{newReplica(t, "", 1)})); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "mutatingwebhookconfiguration/pillion") || !strings.Contains(out.String(), "1 of 1 replicas") {
		t.Errorf("the output is\n%s", &out)
	}
}

func TestStatusWithoutReplicasNamesTheNamespace(t *testing.T) {
	var out bytes.Buffer
	if err := status(t.Context(), &out, clientsettest.Of(fake.NewClientset()), "own", askAll(t.Context(), nil)); !errors.Is(err, errRefused) || !strings.Contains(out.String(), "namespace own") {
		t.Errorf("got %v\n%s", err, &out)
	}
}

func TestAReplicaThatDoesNotAnswerIsNamed(t *testing.T) {
	var out bytes.Buffer
	gone := replica{name: "gone", get: getURL("http://127.0.0.1:1")}
	if err := status(t.Context(), &out, clientsettest.Of(fake.NewClientset(ownConfiguration(nil))), "own", askAll(t.Context(), []replica{gone})); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "not ready: gone: ") || !strings.Contains(out.String(), "unknown") {
		t.Errorf("the output is\n%s", &out)
	}
}

func TestStatusShowsTheConfigurationsOfItsReplicas(t *testing.T) {
	bundle := aBundle()
	const mutating, validating = "MutatingWebhookConfiguration/", "ValidatingWebhookConfiguration/"
	one := []replica{naming("a", map[string]int{mutating + "pillion": 1}), naming("b", map[string]int{mutating + "pillion": 1})}
	for _, test := range []struct {
		name     string
		objects  []runtime.Object
		replicas []replica
		ok       bool
		want     []string
		not      string
	}{
		{
			name:    "an install in another namespace is left out",
			objects: []runtime.Object{calling("pillion", "own", "pillion", bundle), calling("second", "other", "pillion", bundle)}, replicas: one,
			ok: true, want: []string{"/pillion  requested.pillion.dev  1            2 of 2 replicas"}, not: "second",
		},
		{
			name:     "another install in the same namespace has replicas of its own",
			objects:  []runtime.Object{calling("pillion", "own", "pillion", bundle), calling("second", "own", "second", bundle)},
			replicas: []replica{naming("a", map[string]int{mutating + "pillion": 1}), naming("b", map[string]int{mutating + "second": 1})},
			ok:       true, want: []string{"/pillion  requested.pillion.dev  1            1 of 1 replicas", "/second   requested.pillion.dev  1            1 of 1 replicas"},
		},
		{
			name:    "another install in the same namespace, whose pods were not asked",
			objects: []runtime.Object{calling("pillion", "own", "pillion", bundle), calling("second", "own", "second", bundle)}, replicas: one,
			ok: true, want: []string{"2 of 2 replicas"}, not: "second",
		},
		{
			name:    "a configuration that calls the Service, and that no replica names",
			objects: []runtime.Object{calling("pillion", "own", "pillion", bundle), calling("forgotten", "own", "pillion", bundle)}, replicas: one,
			want: []string{"/forgotten  requested.pillion.dev  1            0 of 2 replicas", "2 of 2 replicas"},
		},
		{
			name:     "a configuration that the replicas name, and that does not exist",
			objects:  []runtime.Object{calling("pillion", "own", "pillion", bundle)},
			replicas: []replica{naming("a", map[string]int{mutating + "pillion": 1, validating + "pillion": 0})},
			want:     []string{"1 of 1 replicas", "validatingwebhookconfiguration/pillion  not found                           0 of 1 replicas"},
		},
		{
			name:     "a configuration without an entry that calls the Service",
			objects:  []runtime.Object{calling("pillion", "own", "pillion", bundle), calling("mine", "elsewhere", "x", nil)},
			replicas: []replica{naming("a", map[string]int{mutating + "pillion": 1, mutating + "mine": 0})},
			want:     []string{"/mine     none calls a Service in own"},
		},
		{
			name: "no replica answers", objects: []runtime.Object{calling("pillion", "own", "pillion", bundle), calling("second", "other", "pillion", bundle)},
			replicas: []replica{{name: "gone", get: getURL("http://127.0.0.1:1")}},
			want:     []string{"/pillion  requested.pillion.dev  1            0 of 1 replicas"}, not: "second",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			err := status(t.Context(), &out, clientsettest.Of(fake.NewClientset(test.objects...)), "own", askAll(t.Context(), test.replicas))
			if (err == nil) != test.ok {
				t.Errorf("got %v, want all well: %t", err, test.ok)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q", want)
				}
			}
			if test.not != "" && strings.Contains(out.String(), test.not) {
				t.Errorf("the output has %q", test.not)
			}
			if t.Failed() {
				t.Logf("the output:\n%s", &out)
			}
		})
	}
}

func TestStatusNamesTheProblemsOfAReadyReplica(t *testing.T) {
	failing := naming("one", map[string]int{"MutatingWebhookConfiguration/pillion": 1})
	well := failing.get
	failing.get = func(ctx context.Context, path string) ([]byte, error) {
		body, err := well(ctx, path)
		if path == "/metrics" {
			body = append(body, "# TYPE pillion_certificate_problem gauge\npillion_certificate_problem{object=\"secret own/pillion-ca\",operation=\"secret\"} 1\n"...)
		}
		return body, err
	}
	var out bytes.Buffer
	err := status(t.Context(), &out, clientsettest.Of(fake.NewClientset(ownConfiguration(aBundle()))), "own", askAll(t.Context(), []replica{failing}))
	if want := "failing: one: secret: secret own/pillion-ca; its log says why\n"; !errors.Is(err, errRefused) || !strings.HasPrefix(out.String(), want) {
		t.Errorf("got %v, want errRefused and an output that begins with\n%s\n%s", err, want, &out)
	}
}

func TestReplicasAreRunningPodsThatAreNotBeingDeleted(t *testing.T) {
	pod := func(name, container string, phase corev1.PodPhase, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "injector", "app.kubernetes.io/instance": name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: container}}},
			Status:     corev1.PodStatus{Phase: phase},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	waiting := corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}
	client := fake.NewClientset(
		pod("running", "pillion", corev1.PodRunning, nil),
		pod("ending", "pillion", corev1.PodRunning, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }),
		pod("evicted", "pillion", corev1.PodFailed, func(p *corev1.Pod) { p.Status.Reason = "Evicted" }),
		pod("pending", "pillion", corev1.PodPending, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &waiting}}}
		}),
		pod("other", "database", corev1.PodRunning, nil),
	)
	for selector, want := range map[string]string{"": "running", "app.kubernetes.io/instance=running": "running", "app.kubernetes.io/instance=other": ""} {
		var out bytes.Buffer
		replicas, err := podsOf(t.Context(), &out, clientsettest.Of(client), "own", selector)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range replicas {
			names = append(names, r.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("with the selector %q the replicas are %q, want %q", selector, got, want)
		}
		if selector == "" && out.String() != "not running: evicted: Failed: Evicted\nnot running: pending: Pending: ImagePullBackOff: no such image\n" {
			t.Errorf("the lines for the other pods are\n%s", &out)
		}
	}
}
