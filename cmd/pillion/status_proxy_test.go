package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/clientset"
)

// The API server's proxy returns a pod's answer unchanged.
func TestStatusThroughTheAPIServerSaysWhyAReplicaIsNotReady(t *testing.T) {
	const proxy = "/api/v1/namespaces/own/pods/pillion-1:8080/proxy"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch {
		case r.URL.Path == proxy+"/readyz":
			http.Error(w, "not ready:\ncertificates: secret own/ca: not found\ntemplates: not read yet", http.StatusServiceUnavailable)
			return
		case strings.HasSuffix(r.URL.Path, "/pods"):
			answer = corev1.PodList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
				Items: []corev1.Pod{{
					ObjectMeta: metav1.ObjectMeta{Name: "pillion-1", Namespace: "own"},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pillion"}}},
					Status:     corev1.PodStatus{Phase: corev1.PodRunning},
				}},
			}
		case strings.HasSuffix(r.URL.Path, "/mutatingwebhookconfigurations"):
			answer = admissionv1.MutatingWebhookConfigurationList{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfigurationList"}}
		case strings.HasSuffix(r.URL.Path, "/validatingwebhookconfigurations"):
			answer = admissionv1.ValidatingWebhookConfigurationList{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfigurationList"}}
		default:
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	client, err := clientset.New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	replicas, err := podsOf(t.Context(), io.Discard, client, "own", "")
	if err != nil || len(replicas) != 1 {
		t.Fatalf("%d replicas (%v), want the one pod", len(replicas), err)
	}
	var out bytes.Buffer
	if err := status(t.Context(), &out, client, "own", askAll(t.Context(), replicas)); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want errRefused", err)
	}
	if want := "not ready: pillion-1: certificates: secret own/ca: not found\nnot ready: pillion-1: templates: not read yet\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("the output begins with\n%s\nwant\n%s", &out, want)
	}
}
