package injector

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/record/recordtest"
	"github.com/pillion-dev/pillion/templates"
)

// BenchmarkGrowth measures how the cost of a review grows with the pod. For each way in
// which a pod can be large, it prints
//
//	BENCH <name> ratio=<x> target=<y>
//
// The ratio is the time for a pod of that size over the time for a pod of half the size, in
// this run: 2 is linear, 4 is the square. It fails if a ratio is above its target. Run it
// with -benchtime=1x: it does its own counting.
func BenchmarkGrowth(b *testing.B) {
	for b.Loop() {
		for _, s := range growthSizes {
			set, half, whole := s.templates(b), s.half().pod(b), s.pod(b)
			reportRatio(b, s.name, func() { reviewOnce(b, set, half) }, func() { reviewOnce(b, set, whole) })
			// The second call has to find that there is nothing to do.
			half, whole = reviewOnce(b, set, half), reviewOnce(b, set, whole)
			reportRatio(b, s.name+",again", func() { reviewOnce(b, set, half) }, func() { reviewOnce(b, set, whole) })
		}
	}
}

func reportRatio(b *testing.B, name string, half, whole func()) {
	b.Helper()
	ratio := ratioOf(half, whole)
	fmt.Printf("BENCH %s ratio=%.2f target=%.2f\n", name, ratio, growthTarget)
	if ratio > growthTarget {
		b.Errorf("%s: twice the size takes %.2f times as long", name, ratio)
	}
}

// TestAReviewAllocatesInProportionToThePod counts allocations, which are the same on a busy
// machine, unlike the times of BenchmarkGrowth.
func TestAReviewAllocatesInProportionToThePod(t *testing.T) {
	for _, s := range growthSizes {
		t.Run(s.name, func(t *testing.T) {
			set, half, whole := s.templates(t), s.half().pod(t), s.pod(t)
			for _, call := range []string{"first", "second"} {
				small := testing.AllocsPerRun(1, func() { reviewOnce(t, set, half) })
				large := testing.AllocsPerRun(1, func() { reviewOnce(t, set, whole) })
				if ratio := large / small; ratio > growthTarget {
					t.Errorf("%s call: twice the size takes %.2f times the allocations, %.0f and %.0f", call, ratio, small, large)
				}
				half, whole = reviewOnce(t, set, half), reviewOnce(t, set, whole)
			}
		})
	}
}

// growthTarget leaves room for noise and for caches that a larger pod does not fit in.
const growthTarget = 2.6

// growthManifest extends every container and adds two sidecars. One sidecar lists the names
// of all containers.
const growthManifest = `
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
        env: [{name: SERVICES, value: "${pod.spec.containers.map(c, c.name).join(' ')}"}]
      containers:
      - $each: App
        env: [{name: BENCH, value: "1"}, {name: BENCH_NAME, value: "${container.name}"}]
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

type growthSize struct {
	name                    string
	env, containers, mounts int // variables in one container, containers, volumes mounted in one
	tolerations             int // all of them the API server's default one
	forged                  int // places in a forged record that the pod does not have
	manifest                string
}

// growthSizes are the largest sizes that pods have in practice. Each is also measured at half
// the size.
var growthSizes = []growthSize{
	{name: "env=2000", env: 2000, containers: 1, manifest: growthManifest},
	{name: "containers=100", env: 10, containers: 100, manifest: growthManifest},
	{name: "volumes=500", env: 1, containers: 1, mounts: 500, manifest: growthManifest},
	{name: "taking,containers=400", env: 1, containers: 400, manifest: takingManifest},
	{name: "taking,containers=100,forged=3000", env: 1, containers: 100, forged: 3000, manifest: takingManifest},
	{name: "tolerations=600", containers: 1, tolerations: 600, manifest: toleratingManifest},
}

func (s growthSize) templates(b testing.TB) *templates.Set {
	template, _, err := templates.Compile([]byte(s.manifest), templates.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return templates.NewSet([]templates.Entry{{Name: template.Name(), Template: template}})
}

func (s growthSize) half() growthSize {
	s.env, s.containers, s.mounts = s.env/2, max(s.containers/2, 1), s.mounts/2
	s.tolerations, s.forged = s.tolerations/2, s.forged/2
	return s
}

// pod is the JSON of a pod of that size.
func (s growthSize) pod(b testing.TB) []byte {
	var containers, volumes []any
	for i := range s.containers {
		var env, mounts []any
		for j := range s.env {
			env = append(env, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", j), "value": fmt.Sprintf("value %d", j)})
		}
		for j := range s.mounts {
			volume := fmt.Sprintf("volume-%d", j)
			mounts = append(mounts, map[string]any{"name": volume, "mountPath": "/volumes/" + volume})
			volumes = append(volumes, map[string]any{"name": volume, "configMap": map[string]any{"name": volume, "defaultMode": 420}})
		}
		containers = append(containers, map[string]any{"name": fmt.Sprintf("app-%d", i), "image": "app:1", "env": env, "volumeMounts": mounts,
			"workingDir": "/x", "lifecycle": map[string]any{"preStop": map[string]any{"sleep": map[string]any{"seconds": 1}}},
			"livenessProbe": map[string]any{"httpGet": map[string]any{"port": 80}}})
	}
	var tolerations []any
	for range s.tolerations {
		tolerations = append(tolerations, map[string]any{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
	}
	annotations := map[string]any{"pillion.dev/inject": "bench"}
	if s.forged > 0 {
		forged := recordtest.Forged{Templates: map[string]string{"z": "h"}, Wrote: map[string]string{}}
		for i := range s.forged {
			forged.Wrote[fmt.Sprintf("/spec/a%d/b", i)] = "00000000"
		}
		annotations[statusKey] = forged.Text()
		if _, err := record.Parse(map[string]any{"metadata": map[string]any{"annotations": annotations}}, statusKey); err != nil {
			b.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "bench", "annotations": annotations},
		"spec":     map[string]any{"containers": containers, "volumes": volumes, "tolerations": tolerations},
	})
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// reviewOnce does the webhook's work on a pod, from the text of the request to the text of the
// patch, and returns the resulting pod.
func reviewOnce(b testing.TB, set *templates.Set, text []byte) []byte {
	pod, err := DecodePod(text)
	if err != nil {
		b.Fatal(err)
	}
	out, err := NewPipeline(Config{}).Inject(b.Context(), Request{Operation: "CREATE", Pod: pod, Templates: set, Namespace: templates.Namespace{Name: "bench"}})
	if err != nil || !out.Allowed {
		b.Fatal(err, out.Message)
	}
	if _, err := patch.Marshal(out.Operations); err != nil {
		b.Fatal(err)
	}
	injected, err := json.Marshal(out.Pod)
	if err != nil {
		b.Fatal(err)
	}
	return injected
}

// ratioOf returns how much longer whole takes than half: the median of rounds in which both
// are measured in turn, so that a busy machine slows both.
func ratioOf(half, whole func()) float64 {
	const rounds, least = 9, 60 * time.Millisecond
	runs := 1
	for measure(half, runs) < least {
		runs *= 2
	}
	ratios := make([]float64, rounds)
	for i := range ratios {
		a := measure(half, runs)
		ratios[i] = float64(measure(whole, runs)) / float64(a)
	}
	slices.Sort(ratios)
	return ratios[rounds/2]
}

func measure(f func(), runs int) time.Duration {
	began := time.Now()
	for range runs {
		f()
	}
	return time.Since(began)
}
