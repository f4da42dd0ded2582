package e2e

import (
	"bytes"
	"fmt"
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

// waitRewritten waits until Pillion has written each bundle for the second time, which no longer has an empty
// line at its end.
func waitRewritten(t *testing.T) {
	t.Helper()
	eventually(t, soon, func() error {
		return eachEntry(t.Context(), client, configuration, false, func(entry string, c *admissionregistrationv1.WebhookClientConfig) error {
			if len(c.CABundle) == 0 || bytes.HasSuffix(c.CABundle, []byte("\n\n")) {
				return fmt.Errorf("entry %s has no bundle, or its first text", entry)
			}
			return nil
		})
	})
}

// publishedBundle is the CA bundle that API servers trust, an error unless all entries have the same.
func publishedBundle(t *testing.T) ([]byte, error) {
	t.Helper()
	return bundleOf(t.Context(), client, configuration)
}

// newReviewer posts to the replica as API servers do.
func newReviewer(t *testing.T, r ground.Replica) *measure.Reviewer {
	t.Helper()
	reviewer, err := measure.NewReviewer(t.Context(), client, r, 30*time.Second)
	expectNoError(t, err)
	t.Cleanup(reviewer.Transport.CloseIdleConnections)
	return reviewer
}

// review posts a review, and returns the status and the answer.
func review(t *testing.T, r *measure.Reviewer, body string) (int, string) {
	t.Helper()
	status, answer, err := r.Post(t.Context(), r.URL.Path, 5*time.Second, strings.NewReader(body))
	expectNoError(t, err)
	return status, string(answer)
}
