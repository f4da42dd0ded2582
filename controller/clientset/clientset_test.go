package clientset_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
)

// asked is one request, as the API server gets it.
type asked struct {
	Method, Path, Accept, ContentType string
	Body                              []byte
}

// record returns what calls ask of a server that knows no object.
func record(t *testing.T, make func(*rest.Config) (clientset.Interface, error), config rest.Config, call func(clientset.Interface)) []asked {
	t.Helper()
	var all []asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		all = append(all, asked{r.Method, r.URL.String(), r.Header.Get("Accept"), r.Header.Get("Content-Type"), body})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	}))
	defer server.Close()
	config.Host = server.URL
	client, err := make(&config)
	if err != nil {
		t.Fatal(err)
	}
	call(client)
	return all
}

func TestAPageOfPodsIsAskedForAsJSON(t *testing.T) {
	all := record(t, func(c *rest.Config) (clientset.Interface, error) { return clientset.New(c) }, rest.Config{}, func(c clientset.Interface) {
		for _, namespace := range []string{"shop", ""} {
			if _, err := c.PodList(t.Context(), namespace, metav1.ListOptions{Limit: 250, Continue: "next"}); !apierrors.IsNotFound(err) {
				t.Errorf("got %v, want the API server's answer", err)
			}
		}
	})
	for i, path := range []string{"/api/v1/namespaces/shop/pods", "/api/v1/pods"} {
		if len(all) != 2 || all[i].Path != path+"?continue=next&limit=250" || all[i].Accept != "application/json" {
			t.Errorf("asked %+v, want %s", all, path)
		}
	}
}

func TestAPageOfNamespacesIsAskedForAsTheirMetadata(t *testing.T) {
	all := record(t, func(c *rest.Config) (clientset.Interface, error) { return clientset.New(c) }, rest.Config{}, func(c clientset.Interface) {
		if _, err := c.NamespaceList(t.Context(), metav1.ListOptions{Limit: 50, Continue: "next"}); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want the API server's answer", err)
		}
	})
	if len(all) != 1 || all[0].Path != "/api/v1/namespaces?continue=next&limit=50" || all[0].Accept != "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" {
		t.Errorf("asked %+v", all)
	}
}

func TestThePodProxyIsAskedForAPathOfAPort(t *testing.T) {
	all := record(t, func(c *rest.Config) (clientset.Interface, error) { return clientset.New(c) }, rest.Config{}, func(c clientset.Interface) {
		if body, err := c.PodProxy(t.Context(), "own", "pillion-0", 8080, "/readyz"); err == nil || len(body) == 0 {
			t.Errorf("the body %q and the error %v, want both", body, err)
		}
	})
	if len(all) != 1 || all[0].Path != "/api/v1/namespaces/own/pods/pillion-0:8080/proxy/readyz" {
		t.Errorf("asked %+v", all)
	}
}

func TestABurstIsRequiredWithARate(t *testing.T) {
	if _, err := clientset.New(&rest.Config{Host: "https://example.com", QPS: 5}); err == nil {
		t.Error("a client without a burst")
	}
}
