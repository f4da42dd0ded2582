package clientset_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
)

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
