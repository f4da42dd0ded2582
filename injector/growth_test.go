package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/internal/cputime"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// Eight times the size takes eight times the work: of allocations, which are the same on a busy machine, and of
// processors' time, of which the square would take eight times as much.
func TestTheWorkOfAReviewGrowsAsItsSize(t *testing.T) {
	for _, g := range growths {
		t.Run(fmt.Sprintf("%s%s=%d", g.call, g.what, g.size), func(t *testing.T) {
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
	for range 4 { // other processes take time away from one of both
		if cputime.Of(whole.run) <= 24*cputime.Of(r.run) {
			return
		}
	}
	t.Errorf("it takes %s, an eighth of it %s", cputime.Of(whole.run), cputime.Of(r.run))
}

// allocations counts those of one run. Nothing else runs meanwhile: tests in parallel wait.
func allocations(run func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs)
}

// growth is one way in which a review can be large.
type growth struct {
	what string
	size int
	// templates are their manifests, for a size, and the names of files of the library.
	templates func(n int) []string
	library   []string
	shape     func(n int) shape
	call      measured
	// refused is the reason code with which the pod is refused.
	refused reason.Code
}

// measured is one thing that the pipeline does.
type measured string

const (
	toInject measured = ""        // first calls, and second ones
	toVerify measured = "verify," // a new pod
	toUpdate measured = "update," // all images of a pod changed
)

// growths are pods of up to 4,000 containers, 20,000 variables or 1,000 volumes, and lists of 10,000 items in a
// template.
var growths = []growth{
	{what: "environment,containers", size: 2000, library: []string{"environment"}, shape: containers},
	{what: "variables", size: 20000, library: []string{"environment"}, shape: func(n int) shape { return shape{containers: 1, env: n} }},
	{what: "volumes", size: 1000, library: []string{"fluent-bit"}, shape: func(n int) shape { return shape{containers: 1, volumes: n} }},
	{what: "two-that-meet", size: 710, templates: fixed("{$each: App, securityContext: {runAsUser: 1}}", "{$each: App, securityContext: {runAsGroup: 1}}"), shape: containers},
	{what: "taking", size: 440, templates: fixed(taking), shape: containers},
	{what: "appending", size: 600, templates: fixed("{$each: App, env: [{name: VARIABLE_0, $append: ' ', value: a}]}", "{$each: App, env: [{name: VARIABLE_0, $append: ' ', value: b}]}"), shape: containers},
	{what: "limits,each", size: 500, templates: fixed("{$each: App, resources: {requests: {cpu: 1m}, limits: {memory: 1Mi, hugepages-1Mi: 1Mi}}}"), shape: func(n int) shape { return shape{containers: n, limits: n} }},
	{what: "ports", size: 4000, templates: fixed(`{name: s, image: "s:1", ports: [{containerPort: 9, name: s}], volumeMounts: [{name: v, mountPath: /v/}]}`), shape: func(n int) shape { return shape{containers: n, ports: true} }},
	{what: "forged", size: 3000, templates: fixed(taking), shape: func(n int) shape { return shape{containers: 1, forged: n} }},
	{what: "forged,removed", size: 2400, templates: fixed(taking), shape: func(n int) shape { return shape{containers: 1, env: 4 * n, removed: n} }},
	{what: "templates", size: 64, templates: sidecarEach, shape: small},
	{what: "items", size: 10000, templates: listing("args", "i%[1]d"), shape: small},
	{what: "items,after-each-other", size: 4000, templates: listing("env", "{name: i%[1]d, $position: {after: i%[2]d}}"), shape: small},
	{what: "items,before-each-other", size: 4000, templates: listing("env", "{name: i%[1]d, $position: {before: i%[2]d}}"), shape: small},
	{what: "required", size: 600, templates: requiredOfApps, shape: containers},
	{what: "required,sidecars", size: 60, templates: requiredOfSidecars, shape: small},
	{what: "required,mounts", size: 1000, templates: requiredMounts, shape: small},
	{what: "required", size: 600, templates: requiredOfApps, shape: containers, call: toVerify},
	{what: "required,sidecars", size: 60, templates: requiredOfSidecars, shape: small, call: toVerify},
	{what: "required,mounts", size: 1000, templates: requiredMounts, shape: small, call: toVerify},
	{what: "required", size: 600, templates: requiredOfApps, shape: containers, call: toUpdate},
}

const (
	// taking takes something of every container away, and puts another handler into a probe.
	taking    = "{$each: App, $unset: [workingDir, lifecycle], livenessProbe: {$onConflict: Overwrite, tcpSocket: {port: 80}}}"
	extending = `{$each: App, env: [{name: BENCH, value: "1"}], volumeMounts: [{name: v, mountPath: /bench}]}, {name: bench, image: "bench:1"}`
)

// fixed returns a template for each of the items of the pod's containers, whatever the size.
func fixed(items ...string) func(int) []string {
	var all []string
	for i, item := range items {
		all = append(all, manifestNamed(fmt.Sprint("t", i), "inject: {spec: {containers: ["+item+"], volumes: [{name: v, emptyDir: {}}]}}"))
	}
	return func(int) []string { return all }
}

// listing returns a template with a sidecar that has a list of n items. %[1]d is the number of an item, %[2]d that of the one before.
func listing(field, item string) func(n int) []string {
	return func(n int) []string {
		return []string{manifestNamed("t", `inject: {spec: {initContainers: [{name: s, image: "s:1", `+field+": ["+joined(n, item)+"]}]}}")}
	}
}

func joined(n int, item string) string {
	all := make([]string, n)
	for i := range n {
		if first, _, ok := strings.Cut(item, ", $position"); ok && i == 0 {
			all[i] = fmt.Sprintf(first+"}", i)
		} else {
			all[i] = fmt.Sprintf(item, i, i-1)
		}
	}
	return strings.Join(all, ", ")
}

// sidecarEach returns n templates with a sidecar each. A pod cannot ask for more than 64.
func sidecarEach(n int) (all []string) {
	for i := range n {
		all = append(all, manifestNamed(fmt.Sprint("t", i), fmt.Sprintf(`inject: {spec: {initContainers: [{name: s%d, image: "s:1", restartPolicy: Always, env: [{name: A, value: b}], resources: {limits: {cpu: 1}}}]}}`, i)))
	}
	return all
}

func requiredOfApps(int) []string {
	return []string{mandatory("r", `inject: {spec: {initContainers: [{name: r, $position: First, image: "r:1", volumeMounts: [{name: v, mountPath: /v}]}], containers: [{$each: App, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {}}]}}`)}
}

// requiredOfSidecars extends all containers and the app's, so that sidecars have to be told from the app.
func requiredOfSidecars(n int) []string {
	return append(sidecarEach(n), mandatory("r", `inject: {spec: {containers: [{$each: All, env: [{name: ALL, value: "1"}]}, {$each: Init, env: [{name: INIT, value: "1"}]}]}}`))
}

// requiredMounts returns a required template that mounts many volumes into the container.
func requiredMounts(n int) []string {
	return []string{mandatory("r", "inject: {spec: {volumes: [{name: v, emptyDir: {}}], containers: [{$each: App, volumeMounts: ["+joined(n, "{name: v, mountPath: /v/i%[1]d}")+"]}]}}")}
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
	var manifests, asks []string
	for _, name := range g.library {
		manifest, err := os.ReadFile("../charts/pillion/library/" + name + ".yaml")
		if err != nil {
			tb.Fatal(err)
		}
		manifests = append(manifests, string(manifest))
	}
	if g.templates != nil {
		manifests = append(manifests, g.templates(n)...)
	}
	set := templatestest.Set(tb, manifests...)
	for _, e := range set.All() {
		asks = append(asks, e.Name)
	}
	r := &review{tb: tb, call: toInject, set: set, text: g.shape(n).pod(tb, strings.Join(asks, ","))}
	if out := r.answer(r.text); out.Code != g.refused && (g.refused != "" || !out.Allowed) {
		tb.Fatalf("%d: %s, %.300s", n, out.Code, out.Message)
	}
	if g.call != toInject {
		r.again()
		r.call = g.call
	}
	return r
}

// review is one call of the pipeline.
type review struct {
	tb   testing.TB
	call measured
	set  *templates.Set
	text []byte
}

// again makes the review one of the resulting pod.
func (r *review) again() { r.text = encoded(r.tb, r.answer(r.text).Pod) }

// run does the webhook's work on a pod, from the text of the request to the text of the patch.
func (r *review) run() {
	patch.Marshal(r.answer(r.text).Operations)
}

// ask has the pipeline answer the review until its context ends.
func (r *review) ask(ctx context.Context, text []byte) (Outcome, error) {
	request := Request{Operation: "CREATE", Pod: podOf(r.tb, string(text)), Templates: r.set, Namespace: templates.Namespace{Name: "bench"}}
	if r.call == toUpdate {
		request.Operation, request.Old = "UPDATE", podOf(r.tb, string(text))
		for _, c := range itemsOf(request.Pod, "containers") {
			c["image"] = "another"
		}
	}
	if r.call == toVerify || r.call == toUpdate {
		return NewPipeline(Config{}).Verify(ctx, request)
	}
	return NewPipeline(Config{}).Inject(ctx, request)
}

func (r *review) answer(text []byte) Outcome {
	out, err := r.ask(r.tb.Context(), text)
	if err != nil {
		r.tb.Fatal(err)
	}
	return out
}
