package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/internal/cputime"
	"github.com/pillion-dev/pillion/templates"
)

// BenchmarkGrowth measures how the cost of a review grows with the pod, and with what
// templates render. For each way in which either can be large, it prints
//
//	BENCH <name> ratio=<x> target=<y>
//
// The ratio is how the time grows when the size doubles, as the mean of two doublings in this
// run: 2 is linear, 4 is the square. A review that goes over a bound is measured as the refusal
// that it is, over one doubling: a smaller one is not refused. The benchmark fails if a ratio is
// above its target. Run it with -benchtime=1x: it does its own counting.
func BenchmarkGrowth(b *testing.B) {
	for b.Loop() {
		for _, g := range growths {
			least, doublings := g.size/4, 2.0
			if g.refused != "" {
				least, doublings = g.size/2, 1
			}
			part, whole := g.at(b, least), g.at(b, g.size)
			reportRatio(b, g.name(""), part.run, whole.run, doublings)
			if g.call != toInject || whole.refused || part.refused {
				continue
			}
			// The second call has to find that nothing to do.
			part.again()
			whole.again()
			reportRatio(b, g.name(",again"), part.run, whole.run, doublings)
		}
	}
}

func reportRatio(b *testing.B, name string, part, whole func(), doublings float64) {
	b.Helper()
	ratio := math.Pow(ratioOf(part, whole, 5, 40*time.Millisecond), 1/doublings)
	fmt.Printf("BENCH %s ratio=%.2f target=%.2f\n", name, ratio, growthTarget)
	if ratio > growthTarget {
		b.Errorf("%s: twice the size takes %.2f times as long", name, ratio)
	}
}

// Eight times the size takes eight times the work: of allocations, which are the same on a busy machine, and of
// processors' time, of which the square would take eight times as much.
func TestTheWorkOfAReviewGrowsAsItsSize(t *testing.T) {
	for _, g := range growths {
		if g.refused != "" {
			continue // a bound ends the work
		}
		t.Run(g.name(""), func(t *testing.T) {
			part, whole := g.at(t, g.size/16), g.at(t, g.size/2)
			part.linear(t, whole)
			if g.call == toInject {
				part.again()
				whole.again()
				part.linear(t, whole)
			}
		})
	}
}

// linear fails the test if whole, of eight times r's size, takes much more than eight times the work.
func (r *review) linear(t *testing.T, whole *review) {
	t.Helper()
	if before, now := allocations(r.run), allocations(whole.run); now > 12*before {
		t.Errorf("it takes %.0f allocations, an eighth of it %.0f", now, before)
	}
	ratio := math.Inf(1)
	for range 4 { // other processes take time away from one of both
		if ratio = min(ratio, ratioOf(r.run, whole.run, 3, 5*time.Millisecond)); ratio <= 24 {
			return
		}
	}
	t.Errorf("it takes %.1f times the time of an eighth of it", ratio)
}

// allocations counts those of one run. Nothing else runs meanwhile: tests in parallel wait.
func allocations(run func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs)
}

// growthTarget leaves room for noise and for caches that a larger pod does not fit in.
const growthTarget = 2.6

// growth is one way in which a review can be large.
type growth struct {
	what string
	size int
	// manifests are the templates, for a size; nil for those of the library.
	manifests func(n int) []string
	library   []string
	// shape is the pod of a size.
	shape func(n int) shape
	// call is what is measured.
	call measured
	// refused is the reason code with which both the size and half of it are refused.
	refused reason.Code
}

// measured is one thing that the pipeline does.
type measured string

const (
	toInject   measured = ""         // first calls, and second ones
	toVerify   measured = "verify"   // a new pod
	toUpdate   measured = "update"   // all images of a pod changed
	toUninject measured = "uninject" // an injected pod, without the templates
)

func (g growth) name(suffix string) string {
	what := g.what
	if g.call != toInject {
		what = string(g.call) + "," + what
	}
	if g.refused != "" {
		suffix += ",refused"
	}
	return fmt.Sprintf("%s=%d%s", what, g.size, suffix)
}

// growths go up to 8,000 containers, 20,000 variables of a container, 1,000 volumes and 10,000 items of a list of a
// template.
var growths = []growth{
	{what: "containers", size: 8000, manifests: one(sidecarManifest), shape: containers},
	{what: "environment,containers", size: 2000, library: []string{"environment"}, shape: containers},
	{what: "three-templates,containers", size: 300, library: []string{"environment", "fluent-bit", "ca-bundle"}, shape: containers},
	{what: "three-templates,containers", size: 8000, library: []string{"environment", "fluent-bit", "ca-bundle"}, shape: containers, refused: reason.TemplateTooExpensive},
	{what: "two-that-meet,containers", size: 710, manifests: func(int) []string { return []string{meeting("a", "{runAsUser: 1}"), meeting("b", "{runAsGroup: 1}")} }, shape: containers},
	{what: "variables", size: 20000, library: []string{"environment"}, shape: func(n int) shape { return shape{containers: 1, env: n} }},
	{what: "volumes", size: 1000, library: []string{"fluent-bit"}, shape: func(n int) shape { return shape{containers: 1, volumes: n} }},
	{what: "templates", size: 64, manifests: sidecarEach, shape: small},
	{what: "items", size: 10000, manifests: func(n int) []string {
		return []string{listing("args", n, func(i int) string { return fmt.Sprintf("i%d", i) })}
	}, shape: small},
	{what: "items,first", size: 4000, manifests: items("First"), shape: small},
	{what: "items,before-one", size: 4000, manifests: items("{before: i0}"), shape: small},
	{what: "items,after-each-other", size: 4000, manifests: items("{after: i%}"), shape: small},
	{what: "items,before-each-other", size: 4000, manifests: items("{before: i%}"), shape: small},
	{what: "items,into-a-list,after-each-other", size: 2000, manifests: volumesAfterEachOther, shape: func(n int) shape { return shape{containers: 1, volumes: n} }},
	{what: "items,each-twice", size: 2300, manifests: eachTwice, shape: small},
	{what: "taking,containers", size: 440, manifests: one(takingManifest), shape: containers},
	{what: "forged", size: 3000, manifests: one(takingManifest), shape: func(n int) shape { return shape{containers: 1, forged: n} }},
	{what: "forged,removed", size: 2400, manifests: one(takingManifest), shape: func(n int) shape { return shape{containers: 1, env: 4 * n, removed: n} }},
	{what: "appending,containers", size: 600, manifests: func(int) []string { return []string{appending("a"), appending("b")} }, shape: containers},
	{what: "appending,items", size: 2000, manifests: func(n int) []string {
		return []string{listing("env", n, func(i int) string { return fmt.Sprintf("{name: J, $append: ' ', value: text-%d}", i) })}
	}, shape: small},
	{what: "limits,each", size: 500, manifests: one(limitingManifest), shape: func(n int) shape { return shape{containers: n, limits: n} }},
	{what: "ports", size: 4000, manifests: one(listeningManifest), shape: func(n int) shape { return shape{containers: n, ports: true} }},
	{what: "required,containers", size: 600, manifests: one(requiredManifest), shape: containers},
	{what: "required,sidecars", size: 60, manifests: func(n int) []string { return append(sidecarEach(n), requiredOfAllManifest) }, shape: small},
	{what: "required,mounts", size: 1000, manifests: requiredMounts, shape: small},
	{what: "required,containers", size: 600, manifests: one(requiredManifest), shape: containers, call: toVerify},
	{what: "required,sidecars", size: 60, manifests: func(n int) []string { return append(sidecarEach(n), requiredOfAllManifest) }, shape: small, call: toVerify},
	{what: "required,mounts", size: 1000, manifests: requiredMounts, shape: small, call: toVerify},
	{what: "required,containers", size: 600, manifests: one(requiredManifest), shape: containers, call: toUpdate},
	{what: "containers", size: 1000, manifests: one(growthManifest), shape: containers, call: toUninject},
}

func one(manifest string) func(int) []string { return func(int) []string { return []string{manifest} } }

// sidecarManifest adds two sidecars. No expression in it goes over all containers: CEL's own
// account of what an evaluation costs takes the square of its steps, until the limit of the
// cost or the context ends it.
const sidecarManifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: bench}
spec:
  inject:
    metadata: {labels: {bench.example.com/with: "yes"}}
    spec:
      initContainers:
      - {name: bench-init, $position: First, image: "bench:1", volumeMounts: [{name: bench, mountPath: /bench}]}
      - name: bench
        $position: {after: bench-init}
        restartPolicy: Always
        image: bench:1
        env: [{name: SERVICES, value: "${size(pod.spec.containers)}"}]
      volumes: [{name: bench, emptyDir: {}}]
`

// growthManifest extends every container, too.
const growthManifest = sidecarManifest + `
      containers:
      - $each: App
        env: [{name: BENCH, value: "1"}]
        volumeMounts: [{name: bench, mountPath: /bench}]
`

// requiredManifest is the same for a required template.
const requiredManifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: bench}
spec:
  required: true
  match: {podSelector: {}}
  inject:
    spec:
      initContainers:
      - {name: bench, $position: First, image: "bench:1", volumeMounts: [{name: bench, mountPath: /bench}]}
      containers:
      - $each: App
        volumeMounts: [{name: bench, mountPath: /bench}]
      volumes: [{name: bench, emptyDir: {}}]
`

// requiredOfAllManifest extends all containers and the app's, so that sidecars have to be told from the app.
const requiredOfAllManifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: required}
spec:
  required: true
  match: {podSelector: {}}
  inject: {spec: {containers: [{$each: All, env: [{name: ALL, value: "1"}]}, {$each: Init, env: [{name: INIT, value: "1"}]}]}}
`

// takingManifest takes something of every container away, and puts another handler into a probe.
const takingManifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: bench}
spec:
  inject:
    spec:
      containers:
      - {$each: App, $unset: [workingDir, lifecycle], livenessProbe: {$onConflict: Overwrite, tcpSocket: {port: 80}}}
`

const manifestHead = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: bench}
spec:
`

// meeting is a template that puts something into an object of each container, where
// another one may put something, too.
func meeting(name, securityContext string) string {
	return strings.Replace(manifestHead, "bench", name, 1) + "  inject: {spec: {containers: [{$each: App, securityContext: " + securityContext + "}]}}"
}

// appending is a template that appends to a variable that pods have.
func appending(name string) string {
	return strings.Replace(manifestHead, "bench", name, 1) + "  inject: {metadata: {annotations: {ports: {$append: ',', value: " + name + "}}}, " +
		"spec: {containers: [{$each: App, env: [{name: VARIABLE_0, $append: ' ', value: " + name + "}]}]}}"
}

// listing is a template with a sidecar that has a list of n items.
func listing(field string, n int, item func(i int) string) string {
	return manifestHead + "  inject: {spec: {initContainers: [{name: s, image: \"s:1\", " + field + ": [" + joined(n, item) + "]}]}}"
}

func joined(n int, item func(i int) string) string {
	all := make([]string, n)
	for i := range n {
		all[i] = item(i)
	}
	return strings.Join(all, ", ")
}

// items are variables of a sidecar, all but the first with that $position, in which % is
// the number of the one before.
func items(position string) func(n int) []string {
	if position != "" {
		position = ", $position: " + position
	}
	return func(n int) []string {
		return []string{listing("env", n, func(i int) string {
			if i == 0 {
				return "{name: i0}"
			}
			return fmt.Sprintf("{name: i%d%s}", i, strings.ReplaceAll(position, "%", fmt.Sprint(i-1)))
		})}
	}
}

// sidecarEach are n templates with a sidecar each. A pod cannot ask for more than 64.
func sidecarEach(n int) []string {
	manifests := make([]string, n)
	for i := range manifests {
		manifests[i] = strings.Replace(manifestHead, "bench", fmt.Sprintf("bench-%d", i), 1) +
			fmt.Sprintf("  inject: {spec: {initContainers: [{name: s%d, image: \"s:1\", restartPolicy: Always, env: [{name: A, value: b}], resources: {limits: {cpu: 1}}}]}}", i)
	}
	return manifests
}

func volumesAfterEachOther(n int) []string {
	return []string{manifestHead + "  inject: {spec: {volumes: [" + joined(n, func(i int) string {
		if i == 0 {
			return "{name: i0, emptyDir: {}, $position: First}"
		}
		return fmt.Sprintf("{name: i%d, emptyDir: {}, $position: {after: i%d}}", i, i-1)
	}) + "]}}"}
}

// eachTwice extends each container by two lists of variables.
func eachTwice(n int) []string {
	list := func(letter string) string {
		return "{$each: App, env: [" + joined(n/2, func(i int) string { return fmt.Sprintf("{name: %s%d, value: x}", letter, i) }) + "]}"
	}
	return []string{manifestHead + "  inject: {spec: {containers: [" + list("a") + ", " + list("b") + "]}}"}
}

// requiredMounts is a required template that mounts many volumes into the container.
func requiredMounts(n int) []string {
	return []string{strings.Replace(manifestHead, "spec:\n", "spec:\n  required: true\n  match: {podSelector: {}}\n", 1) +
		"  inject: {spec: {volumes: [{name: v, emptyDir: {}}], containers: [{$each: App, volumeMounts: [" +
		joined(n, func(i int) string { return fmt.Sprintf("{name: v, mountPath: /v/i%d}", i) }) + "]}]}}"}
}

// shape says how large a pod is.
type shape struct {
	// Variables in one container, containers, and volumes mounted into one.
	env, containers, volumes int
	limits                   int // resources that the pod as a whole has limits of
	forged, removed          int // places and removed items in a forged record
	ports                    bool
}

func containers(n int) shape { return shape{containers: n, env: 2} }

// limitingManifest has each container of the pod limited, huge pages included.
const limitingManifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: limiting}
spec:
  inject: {spec: {containers: [{$each: App, resources: {requests: {cpu: 1m}, limits: {memory: 1Mi, hugepages-1Mi: 1Mi}}}]}}
`

// listeningManifest adds a sidecar with a port, and a mount that is written in an unusual way.
const listeningManifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: listening}
spec:
  inject: {spec: {initContainers: [{name: listening, image: "s:1", restartPolicy: Always, ports: [{containerPort: 9, name: listening}], volumeMounts: [{name: v, mountPath: /v/}]}], volumes: [{name: v, emptyDir: {}}]}}
`

func small(int) shape { return shape{containers: 1, env: 2} }

// pod is the JSON of a pod of that shape, with the token of its service account.
func (s shape) pod(tb testing.TB, asks string) []byte {
	var containers, volumes []any
	for i := range s.containers {
		var env, mounts []any
		for j := range s.env {
			env = append(env, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", j), "value": fmt.Sprintf("value %d", j)})
		}
		for j := range s.volumes {
			volume := fmt.Sprintf("volume-%d", j)
			mounts = append(mounts, map[string]any{"name": volume, "mountPath": "/volumes/" + volume})
			if i == 0 {
				volumes = append(volumes, map[string]any{"name": volume, "configMap": map[string]any{"name": volume, "defaultMode": 420}})
			}
		}
		mounts = append(mounts, json.RawMessage(tokenMount))
		container := map[string]any{"name": fmt.Sprintf("app-%d", i), "image": "app:1", "env": env, "volumeMounts": mounts,
			"workingDir": "/x", "lifecycle": map[string]any{"preStop": map[string]any{"sleep": map[string]any{"seconds": 1}}},
			"livenessProbe": map[string]any{"httpGet": map[string]any{"port": 80}}}
		if s.ports {
			container["ports"] = []any{map[string]any{"containerPort": 1000 + i, "name": fmt.Sprintf("p%d", i)}}
		}
		containers = append(containers, container)
	}
	volumes = append(volumes, json.RawMessage(tokenVolume))
	annotations := map[string]any{"pillion.dev/inject": asks, "environment.pillion.dev/env.A": "1"}
	if s.forged+s.removed > 0 {
		annotations[statusKey] = s.record(tb)
	}
	spec := map[string]any{"containers": containers, "volumes": volumes}
	if s.limits > 0 {
		limits := map[string]any{}
		for i := range s.limits {
			limits[fmt.Sprintf("hugepages-%dMi", i)] = "1"
		}
		spec["resources"] = map[string]any{"limits": limits}
	}
	return encoded(tb, map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "bench", "annotations": annotations}, "spec": spec})
}

// record is a forged one.
func (s shape) record(tb testing.TB) string {
	entries := map[string]string{}
	for i := range s.forged {
		entries[fmt.Sprintf("spec.a%d.b", i)] = `{"sum":"0"}`
	}
	for i := range s.removed {
		entries[fmt.Sprintf("spec.containers[name=app-0].env[name=r%d]", i)] = fmt.Sprintf(`{"gone":[[%d,{"name":"r%d"}]]}`, i, i)
	}
	return forged(tb, map[string]string{"z": "h"}, entries)
}

func encoded(tb testing.TB, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// at returns the review of a size.
func (g growth) at(tb testing.TB, n int) *review {
	tb.Helper()
	var all [][]byte
	for _, name := range g.library {
		manifest, err := os.ReadFile("../charts/pillion/library/" + name + ".yaml")
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, manifest)
	}
	if g.manifests != nil {
		for _, manifest := range g.manifests(n) {
			all = append(all, []byte(manifest))
		}
	}
	var entries []templates.Entry
	var names []string
	for _, manifest := range all {
		template, _, err := templates.Compile(manifest, templates.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		entries, names = append(entries, templates.Entry{Name: template.Name(), Template: template}), append(names, template.Name())
	}
	r := &review{tb: tb, call: g.call, set: templates.NewSet(entries), text: g.shape(n).pod(tb, strings.Join(names, ","))}
	if g.call != toInject {
		r.call = toInject
		r.again()
		r.call = g.call
		return r
	}
	out := r.answer(r.text)
	if out.Code != g.refused && (g.refused != "" || !out.Allowed) {
		tb.Fatalf("%d: %s, %s", n, out.Code, clip(out.Message))
	}
	r.refused = !out.Allowed
	return r
}

func clip(message string) string { return message[:min(len(message), 300)] }

// review is one call of the pipeline.
type review struct {
	tb      testing.TB
	call    measured
	set     *templates.Set
	text    []byte
	refused bool
}

// again makes the review one of the resulting pod.
func (r *review) again() { r.text = encoded(r.tb, r.answer(r.text).Pod) }

// run does the webhook's work on a pod, from the text of the request to the text of the
// patch.
func (r *review) run() {
	if r.call == toUninject {
		pod := r.decoded(r.text)
		rec, err := record.Parse(pod)
		if err != nil || rec.Empty() {
			r.tb.Fatal(err)
		}
		rec.Uninject(pod)
		return
	}
	out := r.answer(r.text)
	patch.Marshal(out.Operations)
}

func (r *review) decoded(text []byte) map[string]any {
	pod, err := DecodePod(text)
	if err != nil {
		r.tb.Fatal(err)
	}
	return pod
}

func (r *review) request(text []byte) Request {
	request := Request{Operation: "CREATE", Pod: r.decoded(text), Templates: r.set, Namespace: templates.Namespace{Name: "bench"}}
	if r.call == toUpdate {
		request.Operation, request.Old = "UPDATE", r.decoded(text)
		for _, c := range itemsOf(request.Pod, "containers") {
			c["image"] = "another"
		}
	}
	return request
}

func (r *review) do(ctx context.Context, request Request) (Outcome, error) {
	p := NewPipeline(Config{})
	if r.call == toVerify || r.call == toUpdate {
		return p.Verify(ctx, request)
	}
	return p.Inject(ctx, request)
}

func (r *review) ask(ctx context.Context, text []byte) (Outcome, error) {
	return r.do(ctx, r.request(text))
}

func (r *review) answer(text []byte) Outcome {
	out, err := r.ask(r.tb.Context(), text)
	if err != nil {
		r.tb.Fatal(err)
	}
	return out
}

// ratioOf returns how much longer whole takes than half. Of each the shortest of several
// rounds counts, in which both are measured in turn: on a busy machine others only add.
func ratioOf(part, whole func(), rounds int, least time.Duration) float64 {
	runs := 1
	for measure(part, runs) < least {
		runs *= 2
	}
	var a, b time.Duration
	for range rounds {
		runtime.GC()
		a = shortest(a, measure(part, runs))
		runtime.GC()
		b = shortest(b, measure(whole, runs))
	}
	return float64(b) / float64(a)
}

func shortest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// measure returns the processors' time, which others on the machine change less than the
// clock's.
func measure(f func(), runs int) time.Duration {
	began := cputime.Used()
	for range runs {
		f()
	}
	return cputime.Used() - began
}
