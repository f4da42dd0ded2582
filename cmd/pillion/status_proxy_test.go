package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/clientset"
)

// clientOf is a client of a server that writes what the function returns; with nil the function
// has answered itself.
func clientOf(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) any) clientset.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object := answer(w, r)
		if object == nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := clientset.New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A release says where its replicas have probes and metrics: by an argument, by a variable, or, if
// a file does, by the name of a port.
func TestReplicasAreAskedOnThePortThatTheyListenOn(t *testing.T) {
	port := func(name string, number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: "webhook", ContainerPort: 8443}, {Name: name, ContainerPort: number}}
	}
	env := []corev1.EnvVar{{Name: "PILLION_ADMIN_LISTEN", Value: "0.0.0.0:9300"}}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	var want []string
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
		pods.Items = append(pods.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "own"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "mesh", Args: []string{"serve", "--admin-listen=:1"}}, c.container}},
		})
		want = append(want, fmt.Sprintf("/api/v1/namespaces/own/pods/%s:%d/proxy/readyz", name, c.port))
	}
	var asked []string
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) any {
		if r.URL.Path != "/api/v1/namespaces/own/pods" {
			asked = append(asked, r.URL.Path)
			return nil
		}
		return pods
	})
	replicas, err := podsOf(t.Context(), io.Discard, client, "own", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		if _, err := r.get(t.Context(), "/readyz"); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// The API server's proxy returns a pod's answer unchanged.
func TestStatusThroughTheAPIServerSaysWhyAReplicaIsNotReady(t *testing.T) {
	const proxy = "/api/v1/namespaces/own/pods/pillion-1:8080/proxy"
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) any {
		switch {
		case r.URL.Path == proxy+"/readyz":
			http.Error(w, "not ready:\ncertificates: secret own/ca: not found\ntemplates: not read yet", http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "/pods"):
			return corev1.PodList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
				Items: []corev1.Pod{{
					ObjectMeta: metav1.ObjectMeta{Name: "pillion-1", Namespace: "own"},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pillion"}}},
					Status:     corev1.PodStatus{Phase: corev1.PodRunning},
				}},
			}
		case strings.HasSuffix(r.URL.Path, "/mutatingwebhookconfigurations"):
			return admissionv1.MutatingWebhookConfigurationList{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfigurationList"}}
		case strings.HasSuffix(r.URL.Path, "/validatingwebhookconfigurations"):
			return admissionv1.ValidatingWebhookConfigurationList{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfigurationList"}}
		default:
			http.NotFound(w, r)
		}
		return nil
	})
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
