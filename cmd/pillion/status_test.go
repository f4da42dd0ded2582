package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// newReplica answers as the admin port of a replica does; missing is what it is not
// ready for.
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
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "pillion", Labels: map[string]string{"app.kubernetes.io/name": "pillion"}},
		Webhooks:   []admissionv1.MutatingWebhook{{Name: "requested.pillion.dev", ClientConfig: admissionv1.WebhookClientConfig{CABundle: bundle}}},
	}
}

func TestStatusNamesWhatIsMissingAndFails(t *testing.T) {
	const missing = `certificates: missing permission: patch mutatingwebhookconfigurations.admissionregistration.k8s.io "pillion"`
	var out bytes.Buffer
	err := status(t.Context(), &out, fake.NewClientset(ownConfiguration(nil)), "own", []replica{newReplica(t, missing, 0)})
	if !errors.Is(err, errRefused) {
		t.Errorf("got %v, want that it fails", err)
	}
	for _, want := range []string{"not ready: one: " + missing, "none: its caBundle is empty", "0 of 1 replicas", "(in 4", " 3 ", " 2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
}

func TestStatusIsDoneWhenNothingIsMissing(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	var out bytes.Buffer
	if err := status(t.Context(), &out, fake.NewClientset(ownConfiguration(bundle)), "own", []replica{newReplica(t, "", 1)}); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "mutatingwebhookconfiguration/pillion") || !strings.Contains(out.String(), "1 of 1 replicas") {
		t.Errorf("the output is\n%s", &out)
	}
}

func TestStatusWithoutReplicasSaysWhereItLooked(t *testing.T) {
	var out bytes.Buffer
	if err := status(t.Context(), &out, fake.NewClientset(), "own", nil); !errors.Is(err, errRefused) || !strings.Contains(out.String(), "namespace own") {
		t.Errorf("got %v\n%s", err, &out)
	}
}

func TestAReplicaThatDoesNotAnswerIsNamed(t *testing.T) {
	var out bytes.Buffer
	gone := replica{name: "gone", get: getURL("http://127.0.0.1:1")}
	if err := status(t.Context(), &out, fake.NewClientset(ownConfiguration(nil)), "own", []replica{gone}); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "not ready: gone: ") || !strings.Contains(out.String(), "unknown") {
		t.Errorf("the output is\n%s", &out)
	}
}
