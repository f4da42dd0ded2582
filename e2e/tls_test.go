package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// configuration is the one that the chart made.
const configuration = "pillion"

func webhookConfiguration(t *testing.T) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	c, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{})
	expectNoError(t, err)
	return c
}

// publishedBundle is the CA bundle that API servers trust, an error unless all entries
// have the same.
func publishedBundle(t *testing.T) ([]byte, error) {
	t.Helper()
	webhooks := webhookConfiguration(t).Webhooks
	if len(webhooks) != 4 {
		t.Fatalf("the configuration has %d entries, want 4", len(webhooks))
	}
	bundle := webhooks[0].ClientConfig.CABundle
	for _, w := range webhooks {
		if len(w.ClientConfig.CABundle) == 0 {
			return nil, fmt.Errorf("entry %s has no CA bundle", w.Name)
		}
		if !bytes.Equal(bundle, w.ClientConfig.CABundle) {
			return nil, errors.New("the entries have different CA bundles")
		}
	}
	return bundle, nil
}

// serverTLS is how an API server verifies Pillion.
func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	bundle, err := publishedBundle(t)
	expectNoError(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Fatal("the published bundle holds no certificate")
	}
	service := webhookConfiguration(t).Webhooks[0].ClientConfig.Service
	return &tls.Config{RootCAs: roots, ServerName: service.Name + "." + service.Namespace + ".svc"}
}

// reviewer posts to one replica as an API server would.
type reviewer struct {
	client *http.Client
	url    string
}

func newReviewer(t *testing.T, r ground.Replica) reviewer {
	transport := &http.Transport{
		TLSClientConfig: serverTLS(t),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, r.Serve.String())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return reviewer{
		client: &http.Client{Transport: transport, Timeout: 30 * time.Second},
		url:    "https://" + transport.TLSClientConfig.ServerName + "/mutate/requested",
	}
}
