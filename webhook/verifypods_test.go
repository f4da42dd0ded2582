package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

const audit = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: audit}
spec:
  match: {namespaceSelector: {matchLabels: {team: shop}}}
  required: true
  inject:
    spec:
      initContainers:
      - {name: audit, restartPolicy: Always, image: "registry.example.com/audit:1"}
`

// withAudit makes the template audit the only one, and required in the namespace.
func withAudit(t testing.TB) func(*parts) {
	t.Helper()
	set := templatestest.Set(t, audit)
	return func(o *parts) {
		o.Templates = func() *templates.Set { return set }
		o.Namespaces = oneNamespace{namespace: templates.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}}}
	}
}

// updateOf is the review of an update of a pod, or of its subresource.
func updateOf(subresource, pod, old string) string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"42","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},`+
		`"subResource":%q,"namespace":"shop","operation":"UPDATE","object":%s,"oldObject":%s}}`, subresource, pod, old)
}

func TestTheVerifyingWebhookAnswersReviews(t *testing.T) {
	f := newFixture(t, withAudit(t))
	got := decodeAnswer(t, postTo(t, f.verify, reviewOf(v1Version, "", false)))
	if r := got.Response; r.Allowed || !strings.Contains(r.Result.Message, "template audit: spec.initContainers[name=audit] is missing") || !strings.HasSuffix(r.Result.Message, "(RequiredMissing)") {
		t.Errorf("answer %+v", r.Result)
	}
	none := newFixture(t, nil)
	if got := decodeAnswer(t, postTo(t, none.verify, reviewOf(v1Version, "", false))); !got.Response.Allowed {
		t.Errorf("without required templates: %+v", got.Response)
	}
	update := strings.Replace(reviewOf(v1Version, "", false), `"CREATE"`, `"UPDATE"`, 1)
	if w := postTo(t, f.verify, update); w.Code != http.StatusBadRequest {
		t.Errorf("an update without the old object: HTTP %d", w.Code)
	}
}

// The pod before an update tells which images change.
func TestTheVerifyingWebhookComparesAnUpdateWithTheOldPod(t *testing.T) {
	f := newFixture(t, withAudit(t))
	pod := func(image string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"initContainers":[{"name":"audit","image":"` + image + `","restartPolicy":"Always"}],"containers":[{"name":"web","image":"nginx","resources":{"limits":{"cpu":"1"}}}]}}`
	}
	for image, allowed := range map[string]bool{"evil:1": false, "older:1": true} {
		review := updateOf("", pod(image), pod("older:1"))
		if got := decodeAnswer(t, postTo(t, f.verify, review)).Response; got.Allowed != allowed {
			t.Errorf("to the image %s: %+v", image, got)
		}
	}
}

// The object of a review of pods/ephemeralcontainers is the pod.
func TestTheVerifyingWebhookIsAskedAboutEphemeralContainers(t *testing.T) {
	f := newFixture(t, withAudit(t))
	pod := func(ephemeral string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"initContainers":[{"name":"audit","image":"registry.example.com/audit:1","restartPolicy":"Always"}],` +
			`"containers":[{"name":"web","image":"nginx"}],"ephemeralContainers":[` + ephemeral + `]}}`
	}
	for target, allowed := range map[string]bool{"audit": false, "web": true} {
		review := updateOf("ephemeralcontainers", pod(`{"name":"debug","image":"sh:1","targetContainerName":"`+target+`"}`), pod(""))
		if got := decodeAnswer(t, postTo(t, f.verify, review)).Response; got.Allowed != allowed {
			t.Errorf("into the container %s: %+v", target, got)
		}
	}
}
