package injector

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// cachedTemplates have parts of every kind: some depend on parameters alone, some on the pod
// or its namespace, and some on both.
var cachedTemplates = map[string]string{
	"logs": `
  parameters:
  - {name: level, type: string, default: info, maxLength: 20}
  - {name: paths, type: list, items: string, default: [/var/log]}
  - {name: port, type: integer, default: 2020}
  variables: [{name: port, expression: "string(params.port + 1)"}]
  inject:
    metadata:
      labels: {logs: "${params.level}"}
      annotations: {logs.example.com/of: "${namespaceObject.metadata.name}"}
    spec:
      volumes: [{name: logs, emptyDir: {}}, {$for: "p in params.paths", name: "${p.replace('/', 'x')}", emptyDir: {}}]
      initContainers:
      - {name: logs, image: "logs:1", restartPolicy: Always, args: ["--level=${params.level}", "--port=${variables.port}"],
         env: [{name: LEVEL, value: "${params.level}"}, {name: NAMESPACE, value: "${namespaceObject.metadata.name}"}, {$if: "params.level == 'debug'", name: DEBUG, value: "1"}],
         ports: [{containerPort: "${params.port}"}],
         volumeMounts: [{$for: "p in params.paths", name: logs, mountPath: "${p}"}]}
      containers:
      - {$each: App, env: [{name: LOG_LEVEL, value: "${params.level}", $onConflict: KeepPod}, {name: LOG_NAME, value: "${container.name}"}], volumeMounts: [{name: logs, mountPath: /logs}]}`,
	"rendered": `
  parameters: [{name: level, type: string, default: info}, {name: extra, type: list, items: string}]
  variables: [{name: of, expression: "container.name + params.level"}]
  files: {a: "level ${params.level}\n", b: "${namespaceObject.metadata.name} ${params.level}", c: "${params.?extra.orValue([]).join(' ')}"}
  inject:
    spec:
      initContainers: [{name: rendered, image: "r:1", restartPolicy: Always, args: [a, "${params.?extra}"], volumeMounts: [{name: rendered-files, mountPath: /r}]}]
      containers: [{$each: App, env: [{name: OF, value: "${variables.of}"}]}]`,
	"twin": `
  parameters: [{name: level, type: string, default: info}]
  inject:
    $onConflict: Overwrite
    spec:
      terminationGracePeriodSeconds: "${size(params.level) * 10}"
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - {$each: All, $unset: [workingDir], env: [{$position: First, name: TWIN, value: "${params.level}"}], securityContext: {capabilities: {drop: [ALL]}}}
      - {$if: "params.level == 'debug'", name: twin, image: "twin:${params.level}", resources: {limits: {cpu: 100m}}}`,
}

func cachedSet(t testing.TB) *templates.Set {
	t.Helper()
	specs := maps.Clone(hostileTemplates)
	maps.Copy(specs, cachedTemplates)
	return setOf(t, specs)
}

// cachedRequest draws a request for a pod of a tenant, or of one who is honest. There are few
// different settings, so that what is remembered of one pod is used for others.
func cachedRequest(t *rapid.T, set *templates.Set) Request {
	one := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	r := Request{Operation: "CREATE", Templates: set, Namespace: templates.Namespace{Name: one("namespace", "shop", "bank"), Annotations: map[string]string{}}}
	add := func(annotations map[string]string, key string, values ...string) {
		if value := one(key, append(values, "-")...); value != "-" {
			annotations[key] = value
		}
	}
	if rapid.Bool().Draw(t, "hostile") {
		r.Pod = hostile(t, set)
	} else {
		r.Pod = object(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"` + one("container", "web", "app") + `","image":"web:1","workingDir":"/x"}]}}`)
	}
	metadata := r.Pod["metadata"].(map[string]any)
	ofPod := map[string]string{}
	for _, annotations := range []map[string]string{r.Namespace.Annotations, ofPod} {
		add(annotations, "pillion.dev/inject", "logs,twin", "twin", "rendered,twin", "logs,each,keep")
		add(annotations, "logs.pillion.dev/level", "debug", "warn", "deb", "debug\x01", strings.Repeat("x", 21))
		add(annotations, "logs.pillion.dev/paths", "/a", "/a,/b", "/b,/a")
		add(annotations, "logs.pillion.dev/port", "80", "081", "x")
		add(annotations, "rendered.pillion.dev/extra", "", "a,b", "$(A)")
		add(annotations, "rendered.files.pillion.dev/a", "mine", "level info\n")
		add(annotations, "twin.pillion.dev/level", "debug", "a")
	}
	if len(ofPod) > 0 {
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations == nil {
			annotations = map[string]any{}
		}
		for key, value := range ofPod {
			annotations[key] = value
		}
		metadata["annotations"] = annotations
	}
	return r
}

// answers are what pipelines say to a pod, to the pod that results, and to its verification,
// and what is left when the templates are taken out again. They are one text, because the
// values of one are shared with those of others, and may not change later.
func answers(t testing.TB, p *Pipeline, r Request) (string, error) {
	var text strings.Builder
	for _, call := range []string{"first", "second", "verify", "uninject"} {
		var out Outcome
		var err error
		switch call {
		case "verify":
			out, err = p.Verify(t.Context(), r)
		case "uninject":
			rec, err := record.Parse(r.Pod, statusKey)
			if err != nil {
				fmt.Fprintf(&text, "record: %v\n", err)
				continue
			}
			left, warnings := rec.Uninject(r.Pod)
			b, err := json.Marshal(left)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "left: %s %q\n", b, warnings)
			continue
		default:
			out, err = p.Inject(t.Context(), r)
		}
		if err != nil {
			return "", err
		}
		b, err := json.Marshal([]any{out.Allowed, out.Code, out.Message, out.Pod, out.Operations, out.Warnings, out.Templates, out.Refusals})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%s: %s\n", call, b)
		if out.Allowed && out.Pod != nil {
			r.Pod = out.Pod
		}
	}
	return text.String(), nil
}

func TestACachedAnswerEqualsAFreshOne(t *testing.T) {
	set := cachedSet(t)
	warm := NewPipeline(Config{})
	compare := func(tb rapid.TB, r Request) string {
		want, err := answers(t, NewPipeline(Config{}), r)
		if err != nil {
			tb.Fatal(err)
		}
		for range 3 { // the third has been remembered, whatever was before
			got, err := answers(t, warm, r)
			if err != nil {
				tb.Fatal(err)
			}
			if got != want {
				tb.Fatalf("with what is remembered:\n%s\nafresh:\n%s", got, want)
			}
		}
		return want
	}
	pod := object(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","annotations":{"pillion.dev/inject":"logs","logs.pillion.dev/level":"debug"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`)
	if said := compare(t, Request{Operation: "CREATE", Templates: set, Namespace: templates.Namespace{Name: "shop"}, Pod: pod}); !strings.Contains(said, `logs:1`) {
		t.Errorf("the template that has parameters is not injected:\n%s", said)
	}
	rapid.Check(t, func(rt *rapid.T) { compare(rt, cachedRequest(rt, set)) })
}

// Many at once fill what is remembered, use it, and push each other's out.
func TestConcurrentAnswersFromOneCacheEqualFreshOnes(t *testing.T) {
	set := cachedSet(t)
	generate := rapid.Custom(func(rt *rapid.T) Request { return cachedRequest(rt, set) })
	const many = 40
	var requests []Request
	var want []string
	for i := range many {
		r := generate.Example(i)
		text, err := answers(t, NewPipeline(Config{}), r)
		if err != nil {
			t.Fatal(err)
		}
		requests, want = append(requests, r), append(want, text)
	}
	warm := NewPipeline(Config{})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range many {
				n := (i*(2*worker+1) + worker) % many
				got, err := answers(t, warm, requests[n])
				if err != nil || got != want[n] {
					t.Errorf("worker %d, request %d: %v\n%s\nwant\n%s", worker, n, err, got, want[n])
					return
				}
			}
		})
	}
	all.Wait()
}

// What a tenant can have remembered is bounded: many sets of parameters, each rendered for
// several workloads into as many small objects as are kept.
func TestWhatIsRememberedOfTenantsPodsTakesLittleMemory(t *testing.T) {
	set := templatestest.Set(t, `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: t}
spec:
  parameters: [{name: names, type: list, items: string, default: []}]
  inject: {spec: {initContainers: [{name: t, image: "t:1", env: [{$for: "p in params.names", name: "${p}"}, {name: OF, value: "${pod.metadata.?name.orValue('')}"}]}]}}
`)
	p := NewPipeline(Config{})
	before := heap()
	for tenant := range 100 {
		names := make([]string, 120)
		for i := range names {
			names[i] = fmt.Sprintf("T%dN%d", tenant, i)
		}
		for workload := range 4 {
			pod := object(fmt.Sprintf(`{"metadata":{"name":"w%d","annotations":{"pillion.dev/inject":"t","t.pillion.dev/names":%q}},"spec":{"containers":[{"name":"app","image":"x"}]}}`, workload, strings.Join(names, ",")))
			for range 2 {
				out, err := p.Inject(t.Context(), Request{Operation: "CREATE", Namespace: templates.Namespace{Name: "shop"}, Pod: pod, Templates: set})
				if err != nil || len(out.Operations) == 0 {
					t.Fatal(out.Message, err)
				}
			}
		}
	}
	kept := heap() - before
	t.Logf("%.1f MiB are kept", float64(kept)/(1<<20))
	if kept > 24<<20 {
		t.Error("want 24 MiB at most")
	}
	runtime.KeepAlive(p)
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools have is kept for one more
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
