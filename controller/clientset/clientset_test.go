package clientset_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
)

func TestRequestsThatTypedClientsLack(t *testing.T) {
	page := metav1.ListOptions{Limit: 250, Continue: "next"}
	pods := func(namespace string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := clientset.PodList(c)(ctx, namespace, page)
			return err
		}
	}
	for name, test := range map[string]struct {
		call                func(context.Context, kubernetes.Interface) error
		wantPath, wantTypes string
	}{
		"a page of pods of a namespace": {pods("shop"), "/api/v1/namespaces/shop/pods?continue=next&limit=250", "application/json"},
		"a page of all pods":            {pods(""), "/api/v1/pods?continue=next&limit=250", "application/json"},
		"the version": {func(ctx context.Context, c kubernetes.Interface) error {
			_, err := clientset.ServerVersion(c)(ctx)
			return err
		}, "/version", "application/json"},
		"a path of a pod's port, whose error has a body": {func(ctx context.Context, c kubernetes.Interface) error {
			body, err := clientset.PodProxy(c, "own")(ctx, "pillion-0", 8080, "/readyz")
			if len(body) == 0 {
				t.Error("no body")
			}
			return err
		}, "/api/v1/namespaces/own/pods/pillion-0:8080/proxy/readyz", "application/vnd.kubernetes.protobuf,application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			var path, types string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path, types = r.URL.String(), r.Header.Get("Accept")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
			}))
			defer server.Close()
			client, err := clientset.New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if err := test.call(t.Context(), client); !apierrors.IsNotFound(err) {
				t.Errorf("got %v, want the API server's answer", err)
			}
			if path != test.wantPath || types != test.wantTypes {
				t.Errorf("asked %s as %s, want %s as %s", path, types, test.wantPath, test.wantTypes)
			}
		})
	}
}

// Behind one address there may be several API servers, and one connection leads to one of them.
func TestAClientConnectsAnewForEachRequest(t *testing.T) {
	from := map[string]bool{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr] = true
		_, _ = w.Write([]byte(`{"major": "1", "minor": "36"}`))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	client, err := clientset.New(clientset.WithoutKeepAlives(config))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := clientset.ServerVersion(client)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(from) != 3 {
		t.Errorf("%d connections for 3 reads: %v", len(from), from)
	}
}
