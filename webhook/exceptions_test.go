package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

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
		mutated := decodeAnswer(t, postTo(t, f.mutate, review)).Response
		if got := mutated.Patch == nil; !mutated.Allowed || got != c.excepted || warned(mutated.Warnings) != c.excepted {
			t.Errorf("%s: mutated %+v", c.at, mutated)
		}
		if got := decodeAnswer(t, postTo(t, preview, deploymentReview("CREATE", "", oneApp))).Response.Warnings; warned(got) != c.excepted {
			t.Errorf("%s: previewed %q", c.at, got)
		}
		if got := decodeAnswer(t, postTo(t, f.verify, review)).Response; got.Allowed != c.verified {
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

// A template that fails for a pod as it is now holds the images of the pods that were made with it. A
// pod that an exception let go without it was not.
func TestAnUpdateOfAPodThatWasExceptedIsNotRefused(t *testing.T) {
	set := templatestest.Set(t, strings.Replace(audit, "  required: true\n  inject:\n", `  required: true
  exceptions: [{name: legacy, podSelector: {matchLabels: {app: batch}}, until: "2027-03-31T00:00:00Z", reason: OPS-1}]
  inject:
    metadata: {labels: {port: "${string(int(pod.metadata.?annotations['port'].orValue('1')))}"}}
`, 1))
	f := newFixture(t, func(p *parts) {
		withAudit(t)(p)
		p.Templates = func() *templates.Set { return set }
		p.Now = func() time.Time { return time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC) }
	})
	for _, c := range []struct {
		created, app, more string
		allowed            bool
	}{
		{"2027-03-30T23:59:59Z", "batch", "", true},
		{"2027-03-31T00:00:00Z", "batch", "", false},
		{"2027-03-30T23:59:59Z", "web", "", false},
		{"2027-03-30T23:59:59Z", "batch", `"initContainers":[{"name":"audit","image":"registry.example.com/audit:1","restartPolicy":"Always"}],`, false},
	} {
		pod := func(image string) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","creationTimestamp":"` + c.created + `","labels":{"app":"` + c.app + `"},"annotations":{"port":"x"}},"spec":{` + c.more + `"containers":[{"name":"web","image":"` + image + `"}]}}`
		}
		review := updateOf("", pod("web:2"), pod("web:1"))
		if got := decodeAnswer(t, postTo(t, f.verify, review)).Response; got.Allowed != c.allowed {
			t.Errorf("%+v: %+v", c, got.Result)
		}
	}
}
