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
	"github.com/pillion-dev/pillion/injector/record/recordtest"
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
	ratio := math.Pow(ratioOf(part, whole), 1/doublings)
	fmt.Printf("BENCH %s ratio=%.2f target=%.2f\n", name, ratio, growthTarget)
	if ratio > growthTarget {
		b.Errorf("%s: twice the size takes %.2f times as long", name, ratio)
	}
}

// Twice the size takes twice the work. Allocations stand for the work: they are the same on a busy
// machine, unlike the times of BenchmarkGrowth.
func TestTheWorkOfAReviewGrowsAsItsSize(t *testing.T) {
	for _, g := range growths {
		if g.refused != "" {
			continue // a bound ends the work
		}
		t.Run(g.name(""), func(t *testing.T) {
			half, whole := g.at(t, g.size/16), g.at(t, g.size/8)
			if before, now := allocations(half.run), allocations(whole.run); now > growthTarget*before {
				t.Errorf("%d takes %.0f allocations, half of it %.0f", g.size/8, now, before)
			}
			if g.call != toInject {
				return
			}
			half.again()
			whole.again()
			if before, now := allocations(half.run), allocations(whole.run); now > growthTarget*before {
				t.Errorf("the second call of %d takes %.0f allocations, of half of it %.0f", g.size/8, now, before)
			}
		})
	}
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
	call call
	// refused is the reason code with which both the size and half of it are refused.
	refused reason.Code
}

// call is one thing that the pipeline does.
type call string

const (
	toInject   call = ""         // first calls, and second ones
	toVerify   call = "verify"   // a new pod
	toUpdate   call = "update"   // all images of a pod changed
	toUninject call = "uninject" // an injected pod, without the templates
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

// growths go up to 8,000 containers, 20,000 variables of a container, 1,000 volumes and
// 10,000 items of a list of a template.
var growths = []growth{
	{what: "containers", size: 8000, manifests: one(sidecarManifest), shape: containers},
	{what: "each,containers", size: 1000, manifests: one(growthManifest), shape: containers},
	{what: "environment,containers", size: 2000, library: []string{"environment"}, shape: containers},
	{what: "environment,containers", size: 8000, library: []string{"environment"}, shape: containers, refused: reason.TemplateTooExpensive},
	{what: "three-templates,containers", size: 400, library: []string{"environment", "fluent-bit", "ca-bundle"}, shape: containers},
	{what: "three-templates,containers", size: 8000, library: []string{"environment", "fluent-bit", "ca-bundle"}, shape: containers, refused: reason.TemplateTooExpensive},
	{what: "two-that-meet,containers", size: 1000, manifests: func(int) []string { return []string{meeting("a", "{runAsUser: 1}"), meeting("b", "{runAsGroup: 1}")} }, shape: containers},
	{what: "variables", size: 20000, library: []string{"environment"}, shape: func(n int) shape { return shape{containers: 1, env: n} }},
	{what: "variables,sidecar", size: 20000, library: []string{"fluent-bit"}, shape: func(n int) shape { return shape{containers: 1, env: n} }},
	{what: "volumes", size: 1000, library: []string{"fluent-bit"}, shape: func(n int) shape { return shape{containers: 1, volumes: n} }},
	{what: "templates", size: 64, manifests: sidecars, shape: small},
	{what: "files,volumes", size: 256, manifests: func(n int) []string { return withFiles(n / 8) }, shape: func(n int) shape { return shape{containers: 1, volumes: n} }},
	{what: "variable-of-each,containers", size: 1000, manifests: one(perContainerManifest), shape: containers},
	{what: "items", size: 4000, manifests: items(""), shape: small},
	{what: "items", size: 10000, manifests: func(n int) []string {
		return []string{listing("args", n, func(i int) string { return fmt.Sprintf("i%d", i) })}
	}, shape: small},
	{what: "items,first", size: 4000, manifests: items("First"), shape: small},
	{what: "items,after-one", size: 4000, manifests: items("{after: i0}"), shape: small},
	{what: "items,before-one", size: 4000, manifests: items("{before: i0}"), shape: small},
	{what: "items,after-each-other", size: 4000, manifests: items("{after: i%}"), shape: small},
	{what: "items,before-each-other", size: 4000, manifests: items("{before: i%}"), shape: small},
	{what: "items,into-a-list", size: 2000, manifests: volumes, shape: func(n int) shape { return shape{containers: 1, volumes: n} }},
	{what: "items,into-a-list,after-each-other", size: 2000, manifests: volumesAfterEachOther, shape: func(n int) shape { return shape{containers: 1, volumes: n} }},
	{what: "items,each-twice", size: 3000, manifests: eachTwice, shape: small},
	{what: "items,for", size: 4000, manifests: repeated, shape: small},
	{what: "items", size: 12000, manifests: items(""), shape: small, refused: reason.TemplateTooExpensive},
	{what: "taking,containers", size: 600, manifests: one(takingManifest), shape: containers},
	{what: "forged", size: 3000, manifests: one(takingManifest), shape: func(n int) shape { return shape{containers: 1, forged: n} }},
	{what: "forged,removed", size: 3000, manifests: one(takingManifest), shape: func(n int) shape { return shape{containers: 1, env: 4 * n, removed: n} }},
	{what: "appending,containers", size: 600, manifests: func(int) []string { return []string{appending("a"), appending("b")} }, shape: containers},
	{what: "appending,variables", size: 20000, manifests: func(int) []string { return []string{appending("a"), appending("b")} }, shape: func(n int) shape { return shape{containers: 1, env: 2, sources: n} }},
	{what: "appending,items", size: 2000, manifests: func(n int) []string {
		return []string{listing("env", n, func(i int) string { return fmt.Sprintf("{name: J, $append: ' ', value: text-%d}", i) })}
	}, shape: small},
	{what: "tolerations", size: 1000, manifests: one(toleratingManifest), shape: func(n int) shape { return shape{containers: 1, tolerations: n} }},
	{what: "limits-of-the-pod", size: 2000, manifests: one(sidecarManifest), shape: func(n int) shape { return shape{containers: n / 10, limits: n} }},
	{what: "limits-of-the-pod,each", size: 500, manifests: one(requestingManifest), shape: func(n int) shape { return shape{containers: n, limits: n} }},
	{what: "ports", size: 4000, manifests: one(listeningManifest), shape: func(n int) shape { return shape{containers: n, ports: true} }},
	{what: "required,containers", size: 600, manifests: one(requiredManifest), shape: containers},
	{what: "required,forged", size: 1600, manifests: one(requiredManifest), shape: func(n int) shape { return shape{containers: 100, forged: n} }},
	{what: "required,mounts", size: 1000, manifests: requiredMounts, shape: small},
	{what: "required,containers", size: 600, manifests: one(requiredManifest), shape: containers, call: toVerify},
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

// toleratingManifest makes the default tolerations unnecessary, so they are taken out.
const toleratingManifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: bench}
spec: {inject: {spec: {tolerations: [{operator: Exists}]}}}
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

// appending is a template that appends to variables that pods have, and to one of which they
// have several, with sources.
func appending(name string) string {
	return strings.Replace(manifestHead, "bench", name, 1) + "  inject: {metadata: {annotations: {ports: {$append: ',', value: " + name + "}}}, " +
		"spec: {containers: [{$each: App, env: [{name: VARIABLE_0, $append: ' ', value: " + name + "}, {name: SOURCE, $append: ' ', value: " + name + "}]}]}}"
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

// sidecars are n templates with a sidecar each. A pod cannot ask for more than 64.
func sidecars(n int) []string {
	manifests := make([]string, n)
	for i := range manifests {
		manifests[i] = strings.Replace(manifestHead, "bench", fmt.Sprintf("bench-%d", i), 1) +
			fmt.Sprintf("  inject: {spec: {initContainers: [{name: s%d, image: \"s:1\", restartPolicy: Always, env: [{name: A, value: b}], resources: {limits: {cpu: 1}}}]}}", i)
	}
	return manifests
}

// withFiles are templates with two files each.
func withFiles(n int) []string {
	manifests := make([]string, n)
	for i := range manifests {
		name := fmt.Sprintf("bench-%d", i)
		manifests[i] = strings.Replace(manifestHead, "bench", name, 1) +
			fmt.Sprintf("  files: {a: \"of ${pod.spec.containers[0].name}\", b: text}\n  inject: {spec: {initContainers: [{name: s%d, image: \"s:1\", volumeMounts: [{name: %s-files, mountPath: /f}]}]}}", i, name)
	}
	return manifests
}

// perContainerManifest reads a variable of each container twice.
const perContainerManifest = manifestHead + `
  variables: [{name: of, expression: "container.name + container.?image.orValue('')"}]
  inject: {spec: {containers: [{$each: App, env: [{name: ONE, value: "${variables.of}"}]}, {$each: App, env: [{name: TWO, value: "${variables.of}"}]}]}}
`

// volumes are put into a list of the pod's.
func volumes(n int) []string {
	return []string{manifestHead + "  inject: {spec: {volumes: [" + joined(n, func(i int) string { return fmt.Sprintf("{name: i%d, emptyDir: {}}", i) }) + "]}}"}
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

// repeated has $for, which repeats an item fifty times.
func repeated(n int) []string {
	numbers := joined(50, func(i int) string { return fmt.Sprintf("'%d'", i) })
	return []string{manifestHead + "  variables: [{name: numbers, expression: \"[" + numbers + "]\"}]\n" +
		"  inject: {spec: {initContainers: [{name: s, image: \"s:1\", env: [" +
		joined(n/50, func(i int) string { return fmt.Sprintf("{$for: \"i in variables.numbers\", name: \"i%dx${i}\"}", i) }) + "]}]}}"}
}

// requiredMounts is a required template that mounts many volumes into the container.
func requiredMounts(n int) []string {
	return []string{strings.Replace(manifestHead, "spec:\n", "spec:\n  required: true\n  match: {podSelector: {}}\n", 1) +
		"  inject: {spec: {volumes: [{name: v, emptyDir: {}}], containers: [{$each: App, volumeMounts: [" +
		joined(n, func(i int) string { return fmt.Sprintf("{name: v, mountPath: /v/i%d}", i) }) + "]}]}}"}
}

// shape says how large a pod is.
type shape struct {
	// Variables in one container, containers, volumes mounted into one, and tolerations, all
	// of them the API server's default one.
	env, containers, volumes, tolerations int
	limits                                int // resources that the pod as a whole has limits of
	sources                               int // variables of one name in one container, with sources
	forged, removed                       int // places and removed items in a forged record
	ports                                 bool
}

func containers(n int) shape { return shape{containers: n, env: 2} }

// requestingManifest has each container of the pod request something, huge pages included.
const requestingManifest = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: requesting}
spec:
  inject: {spec: {containers: [{$each: App, resources: {requests: {cpu: 1m, hugepages-1Mi: 1Mi}, limits: {hugepages-1Mi: 1Mi}}}]}}
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
		for range s.sources {
			env = append(env, map[string]any{"name": "SOURCE", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}})
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
	var tolerations []any
	for range s.tolerations {
		tolerations = append(tolerations, map[string]any{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
	}
	annotations := map[string]any{"pillion.dev/inject": asks, "environment.pillion.dev/env.A": "1"}
	if s.forged+s.removed > 0 {
		annotations[statusKey] = s.record(tb)
	}
	spec := map[string]any{"containers": containers, "volumes": volumes, "tolerations": tolerations}
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
	forged := recordtest.Forged{Templates: map[string]string{"z": "h"}, Wrote: map[string]string{}, Removed: map[string][]record.Removed{}}
	for i := range s.forged {
		forged.Wrote[fmt.Sprintf("/spec/a%d/b", i)] = "00000000"
	}
	for i := range s.removed {
		env := "/spec/containers/name=app-0/env"
		forged.Removed[env] = append(forged.Removed[env], record.Removed{At: i, Value: map[string]any{"name": fmt.Sprintf("r%d", i)}})
	}
	text := forged.Text()
	if _, err := record.Parse(map[string]any{"metadata": map[string]any{"annotations": map[string]any{statusKey: text}}}, statusKey); err != nil {
		tb.Fatal(err)
	}
	return text
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
		manifest, err := os.ReadFile("../templates/library/" + name + ".yaml")
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
	call    call
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
		rec, err := record.Parse(pod, statusKey)
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
func ratioOf(part, whole func()) float64 {
	const rounds, least = 5, 40 * time.Millisecond
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
