package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

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

// The pod before an update tells which images change. The object of a review of pods/ephemeralcontainers is the pod.
func TestTheVerifyingWebhookComparesAnUpdateWithTheOldPod(t *testing.T) {
	f := newFixture(t, withAudit(t))
	pod := func(image, ephemeral string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"initContainers":[{"name":"audit","image":"` + image + `","restartPolicy":"Always"}],` +
			`"containers":[{"name":"web","image":"nginx","resources":{"limits":{"cpu":"1"}}}],"ephemeralContainers":[` + ephemeral + `]}}`
	}
	debug := func(target string) string {
		return `{"name":"debug","image":"sh:1","targetContainerName":"` + target + `"}`
	}
	for why, c := range map[string]struct {
		subresource, pod string
		allowed          bool
	}{
		"another image":    {"", pod("evil:1", ""), false},
		"the image it had": {"", pod("older:1", ""), true},
		"into the sidecar": {"ephemeralcontainers", pod("older:1", debug("audit")), false},
		"into the app":     {"ephemeralcontainers", pod("older:1", debug("web")), true},
	} {
		if got := decodeAnswer(t, postTo(f.verify, updateOf(c.subresource, c.pod, pod("older:1", "")))).Response; got.Allowed != c.allowed {
			t.Errorf("%s: %+v", why, got)
		}
	}
}

// One clock decides for the mutation, the preview and the verification. A pod that was excepted when
// it was injected may be verified a moment after the end, or by a replica whose clock is ahead.
func TestAnExceptionEndsForEveryWebhook(t *testing.T) {
	set := templatestest.Set(t, strings.Replace(audit, "  required: true\n", `  required: true
  exceptions: [{name: legacy, namespaceSelector: {matchLabels: {team: shop}}, until: "2027-03-31T00:00:00Z", reason: "OPS-1: moves in March"}]
`, 1))
	ends := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	now := ends.Add(-time.Second)
	change := func(p *parts) {
		withAudit(t)(p)
		p.Templates = func() *templates.Set { return set }
		p.Now = func() time.Time { return now }
	}
	f := newFixture(t, change)
	preview := previewFixture(t, func(p *parts, _ *PreviewOptions) { change(p) })
	f.Metrics.SetTemplates(set)
	review := reviewOf(v1Version, "", false)
	warned := func(warnings []string) bool {
		return strings.Contains(strings.Join(warnings, "\n"), "excepted until 2027-03-31T00:00:00Z by the exception legacy: OPS-1: moves in March")
	}
	for _, c := range []struct {
		at                 time.Duration
		excepted, verified bool
	}{
		{-time.Second, true, true},
		{0, false, false},
	} {
		now = ends.Add(c.at)
		mutated := decodeAnswer(t, postTo(f.mutate, review)).Response
		if got := mutated.Patch == nil; !mutated.Allowed || got != c.excepted || warned(mutated.Warnings) != c.excepted {
			t.Errorf("%s: mutated %+v", c.at, mutated)
		}
		if got := decodeAnswer(t, postTo(preview, deploymentReview("CREATE", "", oneApp))).Response.Warnings; warned(got) != c.excepted {
			t.Errorf("%s: previewed %q", c.at, got)
		}
		if got := decodeAnswer(t, postTo(f.verify, review)).Response; got.Allowed != c.verified {
			t.Errorf("%s: the pod without its sidecar is verified: %+v", c.at, got)
		}
	}
	want := `
		# HELP pillion_excepted_pods_total New pods that go without a required template by one of its exceptions; dry runs are not counted.
		# TYPE pillion_excepted_pods_total counter
		pillion_excepted_pods_total{exception="legacy",template="audit"} 1
		# HELP pillion_template_exception_end_timestamp_seconds When each exception of a required template ends, or ended, in seconds since 1970.
		# TYPE pillion_template_exception_end_timestamp_seconds gauge
		pillion_template_exception_end_timestamp_seconds{exception="legacy",template="audit"} 1.8064512e+09
	`
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "pillion_excepted_pods_total", "pillion_template_exception_end_timestamp_seconds"); err != nil {
		t.Error(err)
	}
	f.Metrics.SetTemplates(templates.NewSet(nil))
	if n := testutil.CollectAndCount(f.registry, "pillion_excepted_pods_total", "pillion_template_exception_end_timestamp_seconds"); n != 0 {
		t.Errorf("%d series of exceptions are left", n)
	}
}
