package e2e

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// configuration is the one that the chart made.
const configuration = "pillion"

func webhookConfiguration(t *testing.T) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	c, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{})
	expectNoError(t, err)
	return c
}

// reviewer posts to one replica as an API server would.
type reviewer struct {
	client *http.Client
	url    string
	tls    *tls.Config // how an API server verifies Pillion
}

// publishedBundle is the CA bundle that API servers trust, an error unless all entries have the same.
func publishedBundle(t *testing.T) ([]byte, error) {
	t.Helper()
	return bundleOf(t.Context(), client, configuration)
}

// newReviewer posts to the replica through the entry of namespaces that fail open.
func newReviewer(t *testing.T, r ground.Replica) reviewer {
	t.Helper()
	url, transport, err := measure.Reviews(t.Context(), client, r)
	expectNoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	url, _, _ = strings.Cut(url, "?")
	return reviewer{client: &http.Client{Transport: transport, Timeout: 30 * time.Second}, url: url, tls: transport.TLSClientConfig}
}
