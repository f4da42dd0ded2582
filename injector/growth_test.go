package injector

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/templates"
)

// BenchmarkGrowth measures how the cost of a review grows with the pod, and prints for each
// way in which a pod can be large
//
//	BENCH <name> ratio=<x> target=<y>
//
// where ratio is the time for a pod of that size over the time for one of half of it, in
// this run: 2 is linear, 4 is the square. It fails if a ratio is above its target. Run it
// with -benchtime=1x: it does its own counting.
func BenchmarkGrowth(b *testing.B) {
	set := growthSet(b)
	for b.Loop() {
		for _, s := range growthSizes {
			half, whole := s.half().pod(b), s.pod(b)
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

// growthTarget leaves room for noise and for caches that a larger pod does not fit in.
const growthTarget = 2.6

// growthManifest extends every container and adds two sidecars, one of which names them all.
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

type growthSize struct {
	name                    string
	env, containers, mounts int // variables in one container, containers, volumes mounted in one
}

// growthSizes are those that pods have in the wild at the far end; each is measured at half of it,
// too.
var growthSizes = []growthSize{
	{"env=2000", 2000, 1, 0},
	{"containers=100", 10, 100, 0},
	{"volumes=500", 1, 1, 500},
}

func growthSet(b *testing.B) *templates.Set {
	template, _, err := templates.Compile([]byte(growthManifest), templates.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return templates.NewSet([]templates.Entry{{Name: template.Name(), Template: template}})
}

func (s growthSize) half() growthSize {
	return growthSize{env: s.env / 2, containers: max(s.containers/2, 1), mounts: s.mounts / 2}
}

// pod is the JSON of a pod of that size.
func (s growthSize) pod(b *testing.B) []byte {
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
		containers = append(containers, map[string]any{"name": fmt.Sprintf("app-%d", i), "image": "app:1", "env": env, "volumeMounts": mounts})
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "bench", "annotations": map[string]any{"pillion.dev/inject": "bench"}},
		"spec":     map[string]any{"containers": containers, "volumes": volumes},
	})
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// reviewOnce is what the webhook does with a pod, from the text of the request to the text of
// the patch; it returns the pod that comes of it.
func reviewOnce(b *testing.B, set *templates.Set, text []byte) []byte {
	pod, err := DecodePod(text)
	if err != nil {
		b.Fatal(err)
	}
	out, err := NewPipeline(Config{}).Inject(Request{Operation: "CREATE", Pod: pod, Templates: set, Namespace: templates.Namespace{Name: "bench"}})
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
