package webhook

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/internal/cputime"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// BenchmarkCost compares what a review costs with what it costs a webhook that does the
// least: one that decodes the review with encoding/json and allows it, and one that decodes
// the typed pod, too, and answers a patch that it has ready. For each case, it prints
//
//	BENCH <name> ratio=<x> target=<y>
//
// The ratio is of medians of processors' time, taken in turns. TLS is left out. The benchmark
// fails if a ratio is above its target. Run it with -benchtime=1x: it does its own counting.
func BenchmarkCost(b *testing.B) {
	// On one processor nothing collects garbage that nobody waits for. Pillion's server has it
	// collected half as often as Go does by itself.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	for b.Loop() {
		for _, c := range costs {
			ours, yardstick := c.handlers(b)
			body := []byte(c.body(b))
			ratio := medianRatio(func() { postTo(ours, body) }, func() { postTo(yardstick, body) })
			fmt.Printf("BENCH %s ratio=%.2f target=%.2f\n", c.name, ratio, c.target)
			if ratio > c.target {
				b.Errorf("%s: %.2f times what the yardstick takes", c.name, ratio)
			}
		}
	}
}

// cost is one case of BenchmarkCost.
type cost struct {
	name   string
	target float64
	// inject is the namespace's annotation, "" for none.
	inject string
	// templates is how many are loaded besides those of the library, env how many variables
	// the pod has besides its own.
	templates, env int
	again          bool
	// patches: the yardstick decodes the typed pod and answers a patch.
	patches bool
}

var costs = []cost{
	{name: "skip", target: 1.2},
	{name: "fluent-bit", target: 3, inject: "fluent-bit", patches: true},
	{name: "fluent-bit-again", target: 2.5, inject: "fluent-bit", again: true, patches: true},
	{name: "istio-proxy", target: 10, inject: "istio-proxy", patches: true},
	{name: "fluent-bit-2000-env", target: 1.1, inject: "fluent-bit", env: 2000, patches: true},
	{name: "skip-2000-env", target: 1, env: 2000},
	// Last: so many templates stay in memory, and cost the collection of garbage afterwards.
	{name: "skip-1000-templates", target: 8, templates: 1000},
	{name: "fluent-bit-1000-templates", target: 8, inject: "fluent-bit", templates: 1000, patches: true},
}

// handlers returns Pillion's webhook and the yardstick for a case.
func (c cost) handlers(tb testing.TB) (ours, yardstick http.Handler) {
	tb.Helper()
	annotations := map[string]string{}
	if c.inject != "" {
		annotations["pillion.dev/inject"] = c.inject
	}
	set := libraryAnd(tb, c.templates)
	f := newFixture(tb, forgetful(func(p *parts) {
		p.Timeout, p.Templates = 10*time.Second, func() *templates.Set { return set }
		p.Namespaces = oneNamespace{namespace: templates.Namespace{Name: "shop", Annotations: annotations,
			Labels: map[string]string{"kubernetes.io/metadata.name": "shop", "team": "shop", "pod-security.kubernetes.io/enforce": "baseline"}}}
	}))
	var ready fixed
	if c.patches {
		ready.patch = patchOf(tb, f.mutate, reviewOfAReplicaSetsPod(c.env))
	}
	return f.mutate, ready
}

// body returns the review of a case.
func (c cost) body(tb testing.TB) string {
	tb.Helper()
	body := reviewOfAReplicaSetsPod(c.env)
	if !c.again {
		return body
	}
	ours, _ := cost{inject: c.inject, templates: c.templates}.handlers(tb)
	patch, err := jsonpatch.DecodePatch([]byte(strings.ReplaceAll(string(patchOf(tb, ours, body)), `"path":"`, `"path":"/request/object`)))
	errtest.ExpectNone(tb, err)
	again, err := patch.Apply([]byte(body))
	errtest.ExpectNone(tb, err)
	return string(again)
}

// libraryAnd returns the library's templates, and so many others. A third of those could be
// asked for, a third match other namespaces, and a third match other pods.
func libraryAnd(tb testing.TB, others int) *templates.Set {
	tb.Helper()
	if set := loaded[others]; set != nil {
		return set
	}
	var manifests []string
	for _, name := range charts.Names() {
		manifest, err := charts.Template(name)
		errtest.ExpectNone(tb, err)
		manifests = append(manifests, string(manifest))
	}
	for i := range others {
		match := []string{"", "match: {namespaceSelector: {matchLabels: {team: team-%d}}}, ", "match: {podSelector: {matchLabels: {app: app-%d}}}, "}[i%3]
		if match != "" {
			match = fmt.Sprintf(match, i)
		}
		manifests = append(manifests, templatestest.Manifest(fmt.Sprint("other-", i), fmt.Sprintf(`{%sparameters: [{name: image, type: image, default: "other:1"}], inject: {spec: {containers: [{name: other-%d, image: "${params.image}"}]}}}`, match, i)))
	}
	loaded[others] = templatestest.Set(tb, manifests...)
	return loaded[others]
}

// loaded has what libraryAnd returned before: to compile templates takes longest.
var loaded = map[int]*templates.Set{}

// reviewOfAReplicaSetsPod is a review as kube-apiserver sends it for a pod that the ReplicaSet
// controller creates, of 3.7 KB, with so many variables more.
func reviewOfAReplicaSetsPod(env int) string {
	const first = `{"name":"LOG_FORMAT","value":"json"}`
	var more strings.Builder
	for i := range env {
		fmt.Fprintf(&more, `,{"name":"VARIABLE_%d","value":"the value of variable %[1]d"}`, i)
	}
	return strings.Replace(strings.ReplaceAll(string(replicaSetsReview), "\n", ""), first, first+more.String(), 1)
}

// replicaSetsReview has line breaks, which API servers do not send.
//
//go:embed testdata/replicaset-review.json
var replicaSetsReview []byte

// patchOf returns the patch of the answer to a review.
func patchOf(tb testing.TB, h http.Handler, body string) []byte {
	tb.Helper()
	var review admissionv1.AdmissionReview
	w := postTo(h, []byte(body))
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil || len(review.Response.Patch) == 0 {
		tb.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	return review.Response.Patch
}

// medianRatio returns how often b's time goes into a's, both as medians of rounds in turns. A round is
// long enough for several collections of garbage, or by chance it would have one or none.
func medianRatio(a, b func()) float64 {
	const rounds, least = 9, 200 * time.Millisecond
	runs := 1
	for processorTime(b, runs) < least {
		runs *= 2
	}
	var as, bs []time.Duration
	for range rounds {
		runtime.GC()
		as = append(as, processorTime(a, runs))
		runtime.GC()
		bs = append(bs, processorTime(b, runs))
	}
	return float64(median(as)) / float64(median(bs))
}

func median(of []time.Duration) time.Duration {
	slices.SortFunc(of, cmp.Compare[time.Duration])
	return of[len(of)/2]
}

// processorTime returns the processors' time, which others on the machine change less than the
// clock's.
func processorTime(f func(), runs int) time.Duration {
	began := cputime.Used()
	for range runs {
		f()
	}
	return cputime.Used() - began
}

// fixed decodes a review as encoding/json does, and allows it. With a patch, it decodes the typed pod, too, and answers the patch.
type fixed struct{ patch []byte }

func (f fixed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err == nil && f.patch != nil {
		err = json.Unmarshal(review.Request.Object.Raw, &pod)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: f.patch}
	if f.patch != nil {
		review.Response.PatchType = new(admissionv1.PatchTypeJSONPatch)
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
