package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/inspect/state"
)

func ownConfiguration(bundle []byte) *admissionv1.MutatingWebhookConfiguration {
	return calling("pillion", "own", "pillion", bundle)
}

// calling returns a configuration with one entry, which calls the Service.
func calling(name, namespace, service string, bundle []byte) *admissionv1.MutatingWebhookConfiguration {
	client := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: service}, CABundle: bundle}
	return &admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
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

// withWebhooks returns a cluster with webhook configurations.
func withWebhooks(t testing.TB, all ...*admissionv1.MutatingWebhookConfiguration) *inspect.Cluster {
	t.Helper()
	var manifests []string
	for _, c := range all {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, string(text))
	}
	return inspecttest.Cluster(t, strings.Join(manifests, "\n---\n"), inspecttest.Options{Place: inspect.Place{Namespace: "own"}, Serve: served})
}

// naming returns a ready replica that names the configurations, by KIND/NAME, and says whether they
// verify it.
func naming(name string, configurations map[string]bool) state.Replica {
	r := state.Replica{Name: name, Answers: true}
	for c, verifies := range configurations {
		kind, name, _ := strings.Cut(c, "/")
		r.Certificates.Published = append(r.Certificates.Published, state.Published{Kind: kind, Name: name, Verifies: verifies})
	}
	return r
}

// statusText returns what status prints of replicas, and whether all is well.
func statusText(t *testing.T, cluster *inspect.Cluster, replicas []state.Replica) (text string, sound bool) {
	t.Helper()
	r, err := reportOn(t.Context(), cluster, replicas, inspect.Target{})
	if err != nil {
		t.Fatal(err)
	}
	return r.text(cluster.Namespace, inspect.Target{}), r.Sound
}

func TestStatusNamesWhatIsMissingAndFails(t *testing.T) {
	const missing = `certificates: missing permission: patch mutatingwebhookconfigurations.admissionregistration.k8s.io pillion`
	failing := naming("one", map[string]bool{"MutatingWebhookConfiguration/pillion": true})
	failing.Certificates.Problems, failing.FailingLabels = []string{"secret: secret own/pillion-ca"}, map[string]int{"pillion.dev/required": 3}
	notReady := naming("one", map[string]bool{"MutatingWebhookConfiguration/pillion": false})
	notReady.Missing, notReady.Certificates.Ends, notReady.Certificates.Rotations, notReady.Certificates.Failures = missing, new(time.Now().Add(48*time.Hour)), 3, 2
	for name, test := range map[string]struct {
		replicas []state.Replica
		bundle   []byte
		want     []string
	}{
		"a permission": {[]state.Replica{notReady}, nil, []string{"not ready: one: " + missing, "none: its caBundle is empty", "0 of 1 replicas", "(in 4", " 3 ", " 2"}},
		"a ready one fails": {[]state.Replica{failing}, aBundle(), []string{
			"failing: one: secret: secret own/pillion-ca; its log says why\n", "failing: one: label pillion.dev/required: cannot be written on 3 namespaces, so they get no sidecars or are not enforced; its log says why",
		}},
		"no replicas": {nil, nil, []string{"namespace own"}},
		"no answer":   {[]state.Replica{{Name: "gone", Missing: "connection refused"}}, nil, []string{"not ready: gone: ", "unknown"}},
	} {
		out, sound := statusText(t, withWebhooks(t, ownConfiguration(test.bundle)), test.replicas)
		if sound {
			t.Errorf("%s: all is well", name)
		}
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the output lacks %q:\n%s", name, want, out)
			}
		}
	}
}

func TestStatusSucceedsIfNothingIsMissing(t *testing.T) {
	out, sound := statusText(t, withWebhooks(t, ownConfiguration(aBundle())), []state.Replica{naming("one", map[string]bool{"MutatingWebhookConfiguration/pillion": true})})
	if !sound || !strings.Contains(out, "mutatingwebhookconfiguration/pillion") || !strings.Contains(out, "1 of 1 replicas") {
		t.Errorf("the output is\n%s", out)
	}
}

func TestStatusShowsTheConfigurationsOfItsReplicas(t *testing.T) {
	bundle := aBundle()
	const mutating, validating = "MutatingWebhookConfiguration/", "ValidatingWebhookConfiguration/"
	one := []state.Replica{naming("a", map[string]bool{mutating + "pillion": true}), naming("b", map[string]bool{mutating + "pillion": true})}
	for _, test := range []struct {
		name     string
		objects  []*admissionv1.MutatingWebhookConfiguration
		replicas []state.Replica
		ok       bool
		want     []string
		not      string
	}{
		{
			name:    "an install in another namespace is left out",
			objects: []*admissionv1.MutatingWebhookConfiguration{calling("pillion", "own", "pillion", bundle), calling("second", "other", "pillion", bundle)}, replicas: one,
			ok: true, want: []string{"/pillion  requested.pillion.dev  1            2 of 2 replicas"}, not: "second",
		},
		{
			name:     "another install in the same namespace has replicas of its own",
			objects:  []*admissionv1.MutatingWebhookConfiguration{calling("pillion", "own", "pillion", bundle), calling("second", "own", "second", bundle)},
			replicas: []state.Replica{naming("a", map[string]bool{mutating + "pillion": true}), naming("b", map[string]bool{mutating + "second": true})},
			ok:       true, want: []string{"/pillion  requested.pillion.dev  1            1 of 1 replicas", "/second   requested.pillion.dev  1            1 of 1 replicas"},
		},
		{
			name:    "another install in the same namespace, whose pods were not asked",
			objects: []*admissionv1.MutatingWebhookConfiguration{calling("pillion", "own", "pillion", bundle), calling("second", "own", "second", bundle)}, replicas: one,
			ok: true, want: []string{"2 of 2 replicas"}, not: "second",
		},
		{
			name:    "a configuration that calls the Service, and that no replica names",
			objects: []*admissionv1.MutatingWebhookConfiguration{calling("pillion", "own", "pillion", bundle), calling("forgotten", "own", "pillion", bundle)}, replicas: one,
			want: []string{"/forgotten  requested.pillion.dev  1            0 of 2 replicas", "2 of 2 replicas"},
		},
		{
			name:     "a configuration that the replicas name, and that does not exist",
			objects:  []*admissionv1.MutatingWebhookConfiguration{calling("pillion", "own", "pillion", bundle)},
			replicas: []state.Replica{naming("a", map[string]bool{mutating + "pillion": true, validating + "pillion": false})},
			want:     []string{"1 of 1 replicas", "validatingwebhookconfiguration/pillion  not found                           0 of 1 replicas"},
		},
		{
			name:     "a configuration without an entry that calls the Service",
			objects:  []*admissionv1.MutatingWebhookConfiguration{calling("pillion", "own", "pillion", bundle), calling("mine", "elsewhere", "x", nil)},
			replicas: []state.Replica{naming("a", map[string]bool{mutating + "pillion": true, mutating + "mine": false})},
			want:     []string{"/mine     none calls a Service in own"},
		},
		{
			name: "no replica answers", objects: []*admissionv1.MutatingWebhookConfiguration{calling("pillion", "own", "pillion", bundle), calling("second", "other", "pillion", bundle)},
			replicas: []state.Replica{{Name: "gone", Missing: "no answer"}},
			want:     []string{"/pillion  requested.pillion.dev  1            0 of 1 replicas"}, not: "second",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, sound := statusText(t, withWebhooks(t, test.objects...), test.replicas)
			if sound != test.ok {
				t.Errorf("all well: %t, want %t", sound, test.ok)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("the output lacks %q", want)
				}
			}
			if test.not != "" && strings.Contains(out, test.not) {
				t.Errorf("the output has %q", test.not)
			}
			if t.Failed() {
				t.Logf("the output:\n%s", out)
			}
		})
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
`
	if got := strings.Join(strings.Fields(out.String()), " "); got != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

// A release says where its replicas have probes and metrics: by an argument, by a variable, or, if
// a file does, by the name of a port.
func TestReplicasAreAskedOnThePortThatTheyListenOn(t *testing.T) {
	port := func(name string, number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: "webhook", ContainerPort: 8443}, {Name: name, ContainerPort: number}}
	}
	env := []corev1.EnvVar{{Name: "PILLION_ADMIN_LISTEN", Value: "0.0.0.0:9300"}}
	var manifests, want []string
	for i, c := range []struct {
		container corev1.Container
		port      int
	}{
		{corev1.Container{}, 8080},
		{corev1.Container{Args: []string{"serve"}}, 8080},
		{corev1.Container{Args: []string{"serve", "--admin-listen=:8080"}, Ports: port("admin", 8080)}, 8080},
		{corev1.Container{Args: []string{"serve", "--admin-listen=:9100"}, Ports: port("admin", 9100)}, 9100},
		{corev1.Container{Args: []string{"serve", "--of-another-version", "--admin-listen", "[::]:9200"}, Ports: port("admin", 8080), Env: env}, 9200},
		{corev1.Container{Args: []string{"serve"}, Ports: port("admin", 8080), Env: env}, 9300},
		{corev1.Container{Args: []string{"serve", "--config=/etc/serve.yaml"}, Ports: port("admin", 9400)}, 9400},
		{corev1.Container{Args: []string{"serve", "--admin-listen=nonsense"}, Ports: port("other", 9500)}, 8080},
		{corev1.Container{Args: []string{"serve", "--replicas"}, Ports: port("admin", 9600)}, 9600},
	} {
		c.container.Name = "pillion"
		name := fmt.Sprint("pillion-", i)
		text, err := json.Marshal(corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "own"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "mesh", Args: []string{"serve", "--admin-listen=:1"}}, c.container}},
		})
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, string(text))
		want = append(want, fmt.Sprintf("%s:%d/readyz", name, c.port), fmt.Sprintf("%s:%d%s", name, c.port, state.Path))
	}
	var asked []string
	cluster := inspecttest.Cluster(t, strings.Join(manifests, "\n---\n"), inspecttest.Options{Place: inspect.Place{Namespace: "own"}, Serve: served})
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
