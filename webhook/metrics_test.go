package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// injectedReview is the review of a pod that the fixture's template was injected into, and
// that somebody has changed since.
func injectedReview(t *testing.T, f *fixture, change func(pod map[string]any)) string {
	t.Helper()
	pod, err := injector.DecodePod([]byte(fmt.Sprintf(podWithToken, "")))
	errtest.ExpectNone(t, err)
	out, err := f.Pipeline.Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}}, Templates: f.Templates()})
	errtest.ExpectNone(t, err)
	if change != nil {
		change(out.Pod)
	}
	text, err := json.Marshal(out.Pod)
	errtest.ExpectNone(t, err)
	return strings.Replace(reviewOf(v1Version, "", false), fmt.Sprintf(podWithToken, ""), string(text), 1)
}

func annotate(key, value string) func(map[string]any) {
	return func(pod map[string]any) {
		pod["metadata"].(map[string]any)["annotations"].(map[string]any)[key] = value
	}
}

func TestAPodIsCountedOnceHoweverOftenTheAPIServerAsks(t *testing.T) {
	f := newFixture(t, func(p *parts) { p.Pods.Templates = setOf(t, logShipper, second) })
	again := injectedReview(t, f, nil)
	dropped := injectedReview(t, f, func(pod map[string]any) {
		spec := pod["spec"].(map[string]any)
		spec["containers"] = spec["containers"].([]any)[:1] // another webhook took the sidecar away
	})
	for _, step := range []struct {
		what, review string
		pods, all    map[string]float64 // how many more, by labels
	}{
		{"the first call", reviewOf(v1Version, "", false), map[string]float64{"injected Injected": 1}, map[string]float64{"shipper Injected": 1}},
		{"the same pod again", again, nil, nil},
		{"and a third time, changed since", dropped, nil, nil},
		{"a template that the pod asks for since", injectedReview(t, f, annotate("pillion.dev/inject", "+second")), nil, map[string]float64{"second Injected": 1}},
		{"a template that it asks for and does not get", injectedReview(t, f, annotate("pillion.dev/inject", "-shipper")), nil, nil},
		{"a refusal of the pod when it comes again", injectedReview(t, f, annotate("shipper.pillion.dev/log-level", "loud")), map[string]float64{"denied BadParameter": 1}, map[string]float64{"shipper BadParameter": 1}},
		{"a refusal at once", reviewOf(v1Version, `,"annotations":{"shipper.pillion.dev/log-level":"loud"}`, false), map[string]float64{"denied BadParameter": 1}, map[string]float64{"shipper BadParameter": 1}},
		{"a name that is no template's", reviewOf(v1Version, `,"annotations":{"pillion.dev/inject":"shiper"}`, false), map[string]float64{"denied UnknownTemplate": 1}, map[string]float64{"(unknown) UnknownTemplate": 1}},
		{"a pod that opts out", reviewOf(v1Version, `,"annotations":{"pillion.dev/inject":"false"}`, false), map[string]float64{"unchanged PodOptedOut": 1}, nil},
		{"a dry run", reviewOf(v1Version, "", true), nil, nil},
		{"an update", strings.Replace(reviewOf(v1Version, "", false), "CREATE", "UPDATE", 1), nil, nil},
	} {
		pods, all := counted(t, f, "pillion_reviewed_pods_total"), counted(t, f, "pillion_injections_total")
		f.post(step.review)
		for name, c := range map[string]struct{ before, want map[string]float64 }{"pillion_reviewed_pods_total": {pods, step.pods}, "pillion_injections_total": {all, step.all}} {
			after := counted(t, f, name)
			for labels, n := range c.before {
				if after[labels] -= n; after[labels] == 0 {
					delete(after, labels)
				}
			}
			if fmt.Sprint(after) != fmt.Sprint(c.want) {
				t.Errorf("%s: %s has %v more, want %v", step.what, name, after, c.want)
			}
		}
	}
}

// counted returns the values of a counter by those of its labels, in the order of their names,
// but for template, which comes first.
func counted(t *testing.T, f *fixture, name string) map[string]float64 {
	t.Helper()
	families, err := f.registry.Gather()
	errtest.ExpectNone(t, err)
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				switch {
				case l.GetValue() == "": // the same as no label
				case l.GetName() == "template":
					labels = append([]string{l.GetValue()}, labels...)
				default:
					labels = append(labels, l.GetValue())
				}
			}
			values[strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	return values
}

const second = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: second}
spec: {inject: {spec: {containers: [{name: second, image: example.com/second:1}]}}}
`

// setOf returns a set of templates, by their manifests.
func setOf(t testing.TB, manifests ...string) func() *templates.Set {
	t.Helper()
	set := templatestest.Set(t, manifests...)
	return func() *templates.Set { return set }
}

// Tenants write what they like, and anybody who reaches the port can forge reviews. A scrape has
// no more lines for it.
func TestNoTenantMakesTheMetricsGrow(t *testing.T) {
	f := newFixture(t, func(p *parts) {
		p.Pods.Namespaces = namespacesFunc(func(name string) (templates.Namespace, error) {
			if strings.HasPrefix(name, "none-") {
				return templates.Namespace{}, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
			}
			return templates.Namespace{Name: name, Annotations: map[string]string{"pillion.dev/inject": "shipper"}}, nil
		})
	})
	series := func() int {
		n, err := testutil.GatherAndCount(f.registry)
		errtest.ExpectNone(t, err)
		return n
	}
	good := reviewOf(v1Version, "", false)
	attack := func(i int) {
		for _, body := range []string{
			good,
			reviewOf(v1Version, fmt.Sprintf(`,"annotations":{"pillion.dev/inject":"none-%d"}`, i), false),
			reviewOf(v1Version, fmt.Sprintf(`,"annotations":{"pillion.dev/inject":"shipper,none-%d"}`, i), i%2 == 0),
			reviewOf(v1Version, fmt.Sprintf(`,"annotations":{"pillion.dev/inject":"%d !"}`, i), false),
			reviewOf(v1Version, fmt.Sprintf(`,"annotations":{"shipper.pillion.dev/log-level":"v%d","p%d.pillion.dev/x":"1"}`, i, i), false),
			reviewOf(v1Version, fmt.Sprintf(`,"annotations":{"pillion.dev/status":"{\"v\":\"%d\"}"}`, i), false),
			strings.Replace(good, `"namespace":"shop"`, fmt.Sprintf(`"namespace":"none-%d"`, i), 1),
			strings.Replace(good, `"namespace":"shop"`, fmt.Sprintf(`"namespace":"shop-%d"`, i), 1),
			strings.Replace(good, `"CREATE"`, fmt.Sprintf(`"OPERATION-%d"`, i), 1),
			strings.Replace(good, `"kind":"Pod"},"resource"`, fmt.Sprintf(`"kind":"Kind%d"},"resource"`, i), 1),
			strings.Replace(good, `"version":"v1"`, fmt.Sprintf(`"version":"v%d"`, i), -1),
			strings.Replace(good, `"uid":"42"`, fmt.Sprintf(`"uid":"%d"`, i), 1),
			fmt.Sprintf("{%d", i),
		} {
			for _, to := range []http.Handler{f.mutate, f.verify} {
				postTo(to, body)
			}
		}
		r := httptest.NewRequest(fmt.Sprintf("M%d", i), fmt.Sprintf("/path-%d?timeout=%d", i, i), strings.NewReader(good))
		r.Header.Set("Content-Type", fmt.Sprint("text/", i))
		f.mutate.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Once for each kind of attack: what comes after brings no series but by what it says.
	attack(1)
	attack(2)
	before := series()
	const n = 200
	for i := range n {
		attack(1000 + i)
	}
	for i := range 10 { // 10,000 names of templates
		var names []string
		for j := range 1000 {
			names = append(names, fmt.Sprintf("t%d-%d", i, j))
		}
		f.post(reviewOf(v1Version, fmt.Sprintf(`,"annotations":{"pillion.dev/inject":%q}`, strings.Join(names, ",")), false))
	}
	after := series()
	if after != before {
		t.Errorf("after %d attacks a scrape has %d series, before %d", n, after, before)
	}
}

type namespacesFunc func(name string) (templates.Namespace, error)

func (f namespacesFunc) Get(_ context.Context, name string, _ func(templates.Namespace) bool) (templates.Namespace, error) {
	return f(name)
}

// Templates that come and go leave no series behind.
func TestTheCountsOfATemplateGoWithIt(t *testing.T) {
	f := newFixture(t, nil)
	f.Metrics.SetTemplates(f.Templates())
	f.post(reviewOf(v1Version, "", false))
	if n := testutil.CollectAndCount(f.registry, "pillion_injections_total"); n != 1 {
		t.Fatalf("%d series, want one", n)
	}
	f.Metrics.SetTemplates(templates.NewSet(nil))
	f.post(reviewOf(v1Version, "", false)) // a review that began with the older set
	f.Metrics.SetTemplates(templates.NewSet(nil))
	if n := testutil.CollectAndCount(f.registry, "pillion_injections_total", "pillion_template_info"); n != 0 {
		t.Errorf("%d series are left, want none", n)
	}
}
