package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// replica is what one replica knows: the templates and the namespace that it has now, and those
// that it had a moment ago.
type replica struct {
	mu             sync.Mutex
	sets, setsOld  []*templates.Set // the last one of sets counts
	ns             templates.Namespace
	nsOld          []templates.Namespace
	live           func() templates.Namespace
	asked, patient int // live reads, and questions for the set
	onAsk          func(n int)
}

func (r *replica) Templates() *templates.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.patient++; r.onAsk != nil {
		r.onAsk(r.patient)
	}
	return r.sets[len(r.sets)-1]
}

func (r *replica) Get(_ context.Context, _ string, _ *templates.NamespaceReads, agrees func(templates.Namespace) bool) (templates.Namespace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if agrees(r.ns) {
		return r.ns, nil
	}
	r.asked++
	return r.live(), nil
}

// knows is a change of a fixture, whose webhooks are those of the replica.
func (r *replica) knows(p *parts) {
	p.Templates, p.Namespaces = r.Templates, r
	p.TemplatesBefore = func() []*templates.Set { return r.setsOld }
	p.NamespaceBefore = func(string, *templates.NamespaceReads) []templates.Namespace { return r.nsOld }
}

// version is a set whose only template is required and has an image of its own; 0 has none.
func version(t testing.TB, n int, change ...string) *templates.Set {
	t.Helper()
	if n == 0 {
		return templates.NewSet(nil)
	}
	manifest := strings.Replace(audit, "audit:1", fmt.Sprint("audit:", n), 1)
	manifest = strings.Replace(manifest, "  required: true\n", "  required: true\n  parameters: [{name: level, type: string, default: info, setBy: [Namespace]}]\n", 1)
	manifest = strings.Replace(manifest, "restartPolicy: Always,", "restartPolicy: Always, env: [{name: LEVEL, value: \"${params.level}\"}],", 1)
	manifest = strings.NewReplacer(change...).Replace(manifest)
	template := templatestest.Compile(t, manifest)
	return templates.NewSet([]templates.Entry{{Name: "audit", Template: template}})
}

// levelled is a namespace that sets the template's parameter.
func levelled(level string) templates.Namespace {
	return templates.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"audit.pillion.dev/level": level}}
}

// made is the review of a new pod that a replica has injected.
func made(t *testing.T, r *replica) string {
	t.Helper()
	review := reviewOf(v1Version, "", false)
	answer := decodeAnswer(t, postTo(t, newFixture(t, r.knows).mutate, review)).Response
	if !answer.Allowed {
		t.Fatalf("the pod is refused at once: %s", answer.Result.Message)
	}
	if answer.Patch == nil {
		return review
	}
	operations := strings.NewReplacer(`"path":"`, `"path":"/request/object`).Replace(string(answer.Patch))
	patch, err := jsonpatch.DecodePatch([]byte(operations))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := patch.Apply([]byte(review))
	if err != nil {
		t.Fatal(err)
	}
	return string(whole)
}

// wants is a replica that has one version of each.
func wants(set *templates.Set, ns templates.Namespace) *replica {
	return &replica{sets: []*templates.Set{set}, ns: ns, live: func() templates.Namespace { return ns }}
}

func TestAPodThatWasMadeAMomentAgoIsVerifiedByWhatWasInForceThen(t *testing.T) {
	v0, v1, v2, v3 := version(t, 0), version(t, 1), version(t, 2), version(t, 3)
	unsuspended := version(t, 1, "required: true", "required: true\n  suspend: true")
	info, debug, trace := levelled("info"), levelled("debug"), levelled("trace")
	elsewhere := templates.Namespace{Name: "shop", Labels: map[string]string{"team": "other"}}
	for name, c := range map[string]struct {
		by      *replica
		now     *replica
		allowed bool
	}{
		"nothing changed":                            {wants(v1, info), wants(v1, info), true},
		"the template changed":                       {wants(v1, info), &replica{sets: []*templates.Set{v2}, setsOld: []*templates.Set{v1}, ns: info}, true},
		"the template changed long ago":              {wants(v1, info), &replica{sets: []*templates.Set{v2}, ns: info}, false},
		"the template changed more than once":        {wants(v1, info), &replica{sets: []*templates.Set{v3}, setsOld: []*templates.Set{v2, v1}, ns: info}, true},
		"the template is required since":             {wants(v0, info), &replica{sets: []*templates.Set{v2}, setsOld: []*templates.Set{v0}, ns: info}, true},
		"the template was required before":           {wants(v0, info), &replica{sets: []*templates.Set{v2}, setsOld: []*templates.Set{v1}, ns: info}, false},
		"the template was suspended":                 {wants(unsuspended, info), &replica{sets: []*templates.Set{v1}, setsOld: []*templates.Set{unsuspended}, ns: info}, true},
		"an annotation of the namespace changed":     {wants(v1, info), &replica{sets: []*templates.Set{v1}, ns: debug, nsOld: []templates.Namespace{info}}, true},
		"an annotation changed to and fro":           {wants(v1, trace), &replica{sets: []*templates.Set{v1}, ns: debug, nsOld: []templates.Namespace{info, debug, info}}, false},
		"both changed":                               {wants(v1, info), &replica{sets: []*templates.Set{v2}, setsOld: []*templates.Set{v1}, ns: debug, nsOld: []templates.Namespace{info}}, true},
		"a label of the namespace selects it since":  {wants(v1, elsewhere), &replica{sets: []*templates.Set{v1}, ns: info, nsOld: []templates.Namespace{elsewhere}}, true},
		"a label of the namespace selected it ever":  {wants(v1, elsewhere), &replica{sets: []*templates.Set{v1}, ns: info, nsOld: []templates.Namespace{debug}}, false},
		"the replica that injected is ahead":         {wants(v2, info), &replica{sets: []*templates.Set{v1, v2}, ns: info}, true},
		"it is ahead for the namespace":              {wants(v1, debug), &replica{sets: []*templates.Set{v1}, ns: info, live: func() templates.Namespace { return debug }}, true},
		"it is ahead for both":                       {wants(v2, debug), &replica{sets: []*templates.Set{v1, v2}, ns: info, live: func() templates.Namespace { return debug }}, true},
		"it is ahead, and the namespace has changed": {wants(v2, info), &replica{sets: []*templates.Set{v1, v2}, ns: info, live: func() templates.Namespace { return debug }, nsOld: []templates.Namespace{info}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := made(t, c.by)
				if c.now.live == nil {
					c.now.live = func() templates.Namespace { return c.now.ns }
				}
				if len(c.now.sets) > 1 { // it catches up while it is asked
					all := c.now.sets
					c.now.sets = all[:1]
					c.now.onAsk = func(n int) {
						if n > 4 {
							c.now.sets = all
						}
					}
				}
				r := decodeAnswer(t, postTo(t, newFixture(t, c.now.knows).verify, pod)).Response
				if r.Allowed != c.allowed {
					t.Errorf("%+v, want allowed %t", r.Result, c.allowed)
				}
			})
		})
	}
}

// A record that says what nobody has ever served takes a moment, and gives nothing.
func TestAForgedRecordIsWaitedForABoundedTimeAndGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v1, v2 := version(t, 1), version(t, 2)
		info := levelled("info")
		now := &replica{sets: []*templates.Set{v2}, setsOld: []*templates.Set{v1}, ns: info, live: func() templates.Namespace { return info }}
		fixture := newFixture(t, now.knows)
		forged := made(t, wants(version(t, 9), info))
		began := time.Now()
		const pods = 3 * mostBehind
		var all sync.WaitGroup
		for range pods {
			all.Go(func() {
				if r := decodeAnswer(t, postTo(t, fixture.verify, forged)).Response; r.Allowed {
					t.Error("a pod that no version allows is admitted")
				}
			})
		}
		all.Wait()
		if now.asked > mostBehind+behindPerSecond*int(1+time.Since(began)/time.Second) {
			t.Errorf("%d live reads for %d pods", now.asked, pods)
		}
		// A hash of before on a pod that is not as the template was then.
		evil := strings.Replace(made(t, wants(v1, info)), "audit:1", "evil:1", 1)
		if r := decodeAnswer(t, postTo(t, fixture.verify, evil)).Response; r.Allowed {
			t.Error("a pod with another image, and the hash of the version before, is admitted")
		}
	})
}

// A replica of an upgrade knows the templates of files in its own version only. Where a pod without
// an answer is refused, it sends the API server to another replica. Where such a pod is admitted, the
// refusal stands.
func TestAVersionThatOnlyAnotherReplicaKnowsIsJudgedByThatOne(t *testing.T) {
	info := levelled("info")
	others := made(t, wants(version(t, 1), info))
	closed := anywhere
	closed.Closed = true
	for name, c := range map[string]struct {
		through entries.Entry
		pod     string
		set     *templates.Set
		want    int // the HTTP status, or that of a refusal
	}{
		"fails closed":                            {closed, others, version(t, 2), http.StatusServiceUnavailable},
		"fails open":                              {anywhere, others, version(t, 2), http.StatusForbidden},
		"fails closed, and knows the version":     {closed, strings.Replace(others, "audit:1", "evil:1", 1), version(t, 1), http.StatusForbidden},
		"fails closed, and the pod has no record": {closed, reviewOf(v1Version, "", false), version(t, 2), http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, wants(c.set, info).knows)
				w := postTo(t, f.Handler(NewVerify(f.Pods, c.through)), c.pod)
				got := w.Code
				if got == http.StatusOK {
					r := decodeAnswer(t, w).Response
					if r.Allowed {
						t.Fatal("the pod is admitted")
					}
					got = int(r.Result.Code)
				}
				if got != c.want {
					t.Errorf("status %d, want %d: %s", got, c.want, w.Body)
				}
				for _, hash := range f.Pipeline.Injected(podOf(t, c.pod)) {
					if strings.Contains(w.Body.String(), hash) {
						t.Errorf("the answer repeats what the pod says of itself: %s", w.Body)
					}
				}
				if got == http.StatusServiceUnavailable && (w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close") {
					t.Errorf("the API server is not sent to another replica: %v", w.Header())
				}
			})
		})
	}
}

// podOf returns the pod of a review.
func podOf(t *testing.T, review string) map[string]any {
	t.Helper()
	var r struct {
		Request struct {
			Object map[string]any `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal([]byte(review), &r); err != nil {
		t.Fatal(err)
	}
	return r.Request.Object
}

// An update never counts by what was in force before: a running pod has time.
func TestAnUpdateIsVerifiedByWhatIsInForceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		info := levelled("info")
		fixture := newFixture(t, (&replica{sets: []*templates.Set{version(t, 2)}, setsOld: []*templates.Set{version(t, 1)}, ns: info, live: func() templates.Namespace { return info }}).knows)
		pod := func(image string) string {
			return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"initContainers":[{"name":"audit","image":"` + image + `","restartPolicy":"Always"}],"containers":[{"name":"web","image":"nginx"}]}}`
		}
		review := updateOf("", pod("registry.example.com/audit:1"), pod("registry.example.com/audit:2"))
		if r := decodeAnswer(t, postTo(t, fixture.verify, review)).Response; r.Allowed {
			t.Error("an update to the image of the version before is admitted")
		}
	})
}
