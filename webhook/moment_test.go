package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// version compiles a version of a required template, whose sidecar has an image of its own.
func version(t testing.TB, n int) *templates.Template {
	t.Helper()
	return templatestest.Compile(t, strings.Replace(audit, "audit:1", fmt.Sprint("audit:", n), 1))
}

// inForce makes the webhooks of a fixture know an entry of the template, at a time.
func inForce(e templates.Entry, at time.Time) func(*parts) {
	e.Name = "audit"
	set := templates.NewSet([]templates.Entry{e})
	ns := templates.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}}
	return func(p *parts) {
		p.Templates, p.Namespaces = func() *templates.Set { return set }, oneNamespace{namespace: ns}
		p.Now = func() time.Time { return at }
	}
}

// injected returns the review of a new pod that a version was injected into.
func injected(t *testing.T, v *templates.Template) string {
	t.Helper()
	review := reviewOf(v1Version, "", false)
	answer := decodeAnswer(t, postTo(t, newFixture(t, inForce(templates.Entry{Template: v}, time.Now())).mutate, review)).Response
	if !answer.Allowed || answer.Patch == nil {
		t.Fatalf("the pod is not injected: %+v", answer)
	}
	patch, err := jsonpatch.DecodePatch([]byte(strings.NewReplacer(`"path":"`, `"path":"/request/object`).Replace(string(answer.Patch))))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := patch.Apply([]byte(review))
	if err != nil {
		t.Fatal(err)
	}
	return string(whole)
}

func TestAPodOfTheVersionBeforeIsVerifiedForAMinute(t *testing.T) {
	v1, v2, v3 := version(t, 1), version(t, 2), version(t, 3)
	since := time.Now()
	pod := injected(t, v1)
	for name, c := range map[string]struct {
		pod     string
		entry   templates.Entry
		after   time.Duration
		allowed bool
	}{
		"nothing changed":        {pod, templates.Entry{Template: v1}, 0, true},
		"changed a moment ago":   {pod, templates.Entry{Template: v2, Previous: v1, Since: since}, templates.EditGrace, true},
		"changed a minute ago":   {pod, templates.Entry{Template: v2, Previous: v1, Since: since}, templates.EditGrace + time.Second, false},
		"changed twice":          {pod, templates.Entry{Template: v3, Previous: v2, Since: since}, 0, false},
		"another one":            {pod, templates.Entry{Template: v2}, 0, false},
		"it claims to be old":    {strings.Replace(pod, "audit:1", "evil:1", 1), templates.Entry{Template: v2, Previous: v1, Since: since}, 0, false},
		"it has nothing":         {reviewOf(v1Version, "", false), templates.Entry{Template: v2, Previous: v1, Since: since}, 0, false},
		"the new one, by record": {injected(t, v2), templates.Entry{Template: v2, Previous: v1, Since: since}, 0, true},
	} {
		r := decodeAnswer(t, postTo(t, newFixture(t, inForce(c.entry, since.Add(c.after))).verify, c.pod)).Response
		if r.Allowed != c.allowed {
			t.Errorf("%s: %+v, want allowed %t", name, r.Result, c.allowed)
		}
	}
}

// An update never counts by the version before: a running pod has time.
func TestAnUpdateIsVerifiedByTheVersionInForceOnly(t *testing.T) {
	pod := func(image string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"initContainers":[{"name":"audit","image":"` + image + `","restartPolicy":"Always"}],"containers":[{"name":"web","image":"nginx"}]}}`
	}
	now := time.Now()
	fixture := newFixture(t, inForce(templates.Entry{Template: version(t, 2), Previous: version(t, 1), Since: now}, now))
	review := updateOf("", pod("registry.example.com/audit:1"), pod("registry.example.com/audit:2"))
	if r := decodeAnswer(t, postTo(t, fixture.verify, review)).Response; r.Allowed {
		t.Error("an update to the image of the version before is admitted")
	}
}
