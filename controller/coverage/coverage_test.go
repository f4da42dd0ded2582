package coverage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// cluster is a fake API server: it knows how many pods each namespace has, and makes them as
// they are asked for.
type cluster struct {
	pods map[string]int
	// pod writes the n-th pod of a namespace. Default: a bare one.
	pod func(namespace string, n int) string
	// refuse returns the error for the request, nil for an answer.
	refuse func(namespace string, o metav1.ListOptions) error
	asked  []string
}

func bare(namespace string, n int) string {
	return fmt.Sprintf(`{"metadata":{"name":"web-%d","namespace":%q,"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]},"status":{"phase":"Running"}}`, n, namespace)
}

func (c *cluster) list(_ context.Context, namespace string, o metav1.ListOptions) (io.ReadCloser, error) {
	c.asked = append(c.asked, fmt.Sprintf("%s limit=%d continue=%s", namespace, o.Limit, o.Continue))
	if c.refuse != nil {
		if err := c.refuse(namespace, o); err != nil {
			return nil, err
		}
	}
	first := 0
	if o.Continue != "" {
		if _, err := fmt.Sscan(o.Continue, &first); err != nil {
			return nil, err
		}
	}
	type numbered struct {
		namespace string
		n         int
	}
	var pods []numbered
	for _, in := range slices.Sorted(maps.Keys(c.pods)) {
		for n := range c.pods[in] {
			if namespace == "" || namespace == in {
				pods = append(pods, numbered{in, n})
			}
		}
	}
	last, next := len(pods), ""
	if o.Limit > 0 && first+int(o.Limit) < last {
		last = first + int(o.Limit)
		next = fmt.Sprint(last)
	}
	write := c.pod
	if write == nil {
		write = bare
	}
	reader, writer := io.Pipe()
	go func() {
		fmt.Fprintf(writer, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":%q},"items":[`, next)
		for i, pod := range pods[first:last] {
			if i > 0 {
				io.WriteString(writer, ",")
			}
			io.WriteString(writer, write(pod.namespace, pod.n))
		}
		io.WriteString(writer, "]}\n")
		writer.Close()
	}()
	return reader, nil
}

func expired(next string) error {
	err := apierrors.NewResourceExpired("the list is too old")
	err.ErrStatus.Continue = next
	return err
}

func TestEachPodOfAllPagesIsVisitedOnce(t *testing.T) {
	for _, of := range []int{0, 1, 249, 250, 251, 600} {
		c := &cluster{pods: map[string]int{"shop": of}}
		if of == 600 { // the second page comes too late for the version of the first
			c.refuse = func(_ string, o metav1.ListOptions) error {
				if o.Continue == "250" {
					return expired("250 ")
				}
				return nil
			}
		}
		var names []string
		_, err := List(c.list).Each(t.Context(), "shop", func(pod map[string]any) error {
			names = append(names, pod["metadata"].(map[string]any)["name"].(string))
			if pod["kind"] != "Pod" || pod["apiVersion"] != "v1" {
				t.Fatalf("a pod that does not say what it is: %v", pod)
			}
			return nil
		})
		if err != nil || len(names) != of || of > 0 && names[of-1] != fmt.Sprintf("web-%d", of-1) {
			t.Errorf("of %d pods %d were visited (%v), by %q", of, len(names), err, c.asked)
		}
		if slices.ContainsFunc(c.asked, func(a string) bool { return !strings.Contains(a, "limit=250") }) {
			t.Errorf("asked %q", c.asked)
		}
	}
}

// What is held is one pod, not a page, and not what a tenant puts into a pod.
func TestMemoryIsBoundedByAPodNotByTheCluster(t *testing.T) {
	large := strings.Repeat(`{},`, 1_000_000)
	c := &cluster{pods: map[string]int{"shop": 10_000}, pod: func(namespace string, n int) string {
		if n == 5_000 {
			return `{"metadata":{"name":"large"},"spec":{"containers":[` + large + `{}]}}`
		}
		return strings.Replace(bare(namespace, n), `"labels"`, `"annotations":{"a":"`+strings.Repeat("x", 400)+`"},"labels"`, 1)
	}}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, visited, most := heap(), 0, int64(0)
	tooLarge, err := List(c.list).Each(t.Context(), "shop", func(map[string]any) error {
		if visited++; visited%1000 == 0 && visited != 5000 {
			most = max(most, heap()-before)
		}
		return nil
	})
	if err != nil || visited != 9_999 || tooLarge != 1 {
		t.Fatalf("%d pods visited, %d too large: %v", visited, tooLarge, err)
	}
	// Less is held than 10,000 pods take, and than the large one takes decoded. The large
	// pod's text, 3 MB, may be in the buffer until the page ends.
	if most > 16<<20 {
		t.Errorf("%d KiB are held", most>>10)
	}
}

func setOf(t testing.TB) *templates.Set { return setWith(t, "side:1") }

// setWith returns the set of one template, whose sidecar has the image.
func setWith(t testing.TB, image string) *templates.Set {
	t.Helper()
	return templatestest.Specs(t, map[string]string{"side": `{inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "` + image + `"}]}}}`})
}

func namespace(name, injection string) templates.Namespace {
	ns := templates.Namespace{Name: name, Labels: map[string]string{}, Annotations: map[string]string{"pillion.dev/inject": "side"}}
	if injection != "" {
		ns.Labels["pillion.dev/injection"] = injection
	}
	return ns
}

// counterOf returns a counter of a cluster, and what it logs.
func counterOf(t testing.TB, c *cluster, all ...templates.Namespace) (*Counter, *bytes.Buffer) {
	set, log := setOf(t), &bytes.Buffer{}
	return NewCounter(Options{
		List: c.list, Comparer: drift.Comparer{Pipeline: injector.NewPipeline(injector.Config{})},
		Namespaces: func() iter.Seq[templates.Namespace] { return slices.Values(all) }, Templates: func() *templates.Set { return set },
		Namespace: func(_ context.Context, name string) (templates.Namespace, error) {
			i := slices.IndexFunc(all, func(ns templates.Namespace) bool { return ns.Name == name })
			if i < 0 {
				return templates.Namespace{}, errors.New("there is no such namespace")
			}
			return all[i], nil
		},
		Ready: func() error { return nil }, Every: 5 * time.Minute, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}), log
}

// outdatedPod is a pod that the webhook injected when the template had another image.
func outdatedPod(t testing.TB, ns templates.Namespace) string {
	t.Helper()
	var pod map[string]any
	if err := json.Unmarshal([]byte(bare(ns.Name, 0)), &pod); err != nil {
		t.Fatal(err)
	}
	out, err := injector.NewPipeline(injector.Config{}).Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: setWith(t, "side:0")})
	if err != nil || !out.Allowed {
		t.Fatalf("%v: %s", err, out.Message)
	}
	text, err := json.Marshal(out.Pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheMetricsNameTheWorstNamespacesAndSumTheRest(t *testing.T) {
	c := &cluster{pods: map[string]int{"never": 9, "off": 9, "old": 2, "none": 0}}
	all := []templates.Namespace{namespace("never", ""), namespace("off", "disabled"), namespace("old", "enforced"), namespace("none", "enabled")}
	for i := range 23 {
		name := fmt.Sprintf("n%02d", i)
		all = append(all, namespace(name, "enabled"))
		c.pods[name] = i + 1
	}
	old := outdatedPod(t, namespace("old", "enforced"))
	c.pod = func(ns string, n int) string {
		if ns == "old" {
			return old
		}
		return bare(ns, n)
	}
	// Elsewhere nobody calls Pillion: those are most namespaces, so their pods are not read.
	for i := range 30 {
		name := fmt.Sprintf("x%02d", i)
		all = append(all, namespace(name, ""))
		c.pods[name] = 9
	}
	counter, _ := counterOf(t, c, all...)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(counter)
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series before the first look (%v)", n, err)
	}
	found, err := counter.scan(t.Context())
	counter.record(found, err)
	var want strings.Builder
	want.WriteString("# HELP pillion_pods_missing_injection Running pods without a sidecar that they would get if they were created now. The worst 20 namespaces have their names, the rest are together as (others).\n# TYPE pillion_pods_missing_injection gauge\n")
	fmt.Fprintf(&want, "pillion_pods_missing_injection{pod_namespace=\"(others)\"} %d\n", 1+2+3)
	for i := 3; i < 23; i++ {
		fmt.Fprintf(&want, "pillion_pods_missing_injection{pod_namespace=\"n%02d\"} %d\n", i, i+1)
	}
	want.WriteString("# HELP pillion_pods_outdated Running pods that Pillion would write otherwise if they were created now. The worst 20 namespaces have their names, the rest are together as (others).\n# TYPE pillion_pods_outdated gauge\n" +
		"pillion_pods_outdated{pod_namespace=\"(others)\"} 0\npillion_pods_outdated{pod_namespace=\"old\"} 2\n")
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want.String()), "pillion_pods_missing_injection", "pillion_pods_outdated"); err != nil {
		t.Error(err)
	}
	for _, asked := range c.asked {
		if strings.HasPrefix(asked, "never ") || strings.HasPrefix(asked, "off ") || strings.HasPrefix(asked, " ") || strings.HasPrefix(asked, "x") {
			t.Errorf("it read the pods of a namespace in which nobody calls Pillion: %q", asked)
		}
	}
}

func TestALookAsksForAsManyPagesAsPodsNeedNotForEachNamespace(t *testing.T) {
	c := &cluster{pods: map[string]int{"kube-system": 9}}
	all := []templates.Namespace{namespace("kube-system", "")}
	for i := range 1000 {
		name := fmt.Sprintf("n%03d", i)
		all = append(all, namespace(name, "enabled"))
		c.pods[name] = 1
	}
	counter, _ := counterOf(t, c, all...)
	found, err := counter.scan(t.Context())
	if err != nil || len(found.missing) != 1000 || found.missing["n007"] != 1 {
		t.Errorf("%d namespaces have pods that lack a sidecar (%v)", len(found.missing), err)
	}
	if len(c.asked) != 5 { // 1,009 pods
		t.Errorf("%d requests: %q", len(c.asked), c.asked)
	}
}

func TestAMissingRightIsSaidOnceAndLeavesNoNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var forbidden atomic.Bool
		c := &cluster{pods: map[string]int{"shop": 3}, refuse: func(string, metav1.ListOptions) error {
			if forbidden.Load() {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
			}
			return nil
		}}
		counter, log := counterOf(t, c, namespace("shop", "enabled"))
		runtest.Start(t, counter.Run)
		series := func() int { return testutil.CollectAndCount(counter) }
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := series(); n != 5 {
			t.Errorf("%d series after the first look", n)
		}
		forbidden.Store(true)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if n, said := series(), strings.Count(log.String(), "missing permission: the verb list on the resource pods"); n != 0 || said != 1 {
			t.Errorf("%d series without the right, said %d times:\n%s", n, said, log)
		}
		forbidden.Store(false)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if n := series(); n != 5 || !strings.Contains(log.String(), "pods can be listed again") {
			t.Errorf("%d series with the right again:\n%s", n, log)
		}
	})
}

func TestPodsAreCountedByVersionAndByWhetherTheyAreReady(t *testing.T) {
	set := templatestest.Set(t,
		`{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side}, spec: {inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "side:1"}]}}}}`,
		`{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: next}, spec: {canary: {of: side, percent: 10}, inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "side:2"}]}}}}`,
		`{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: rare}, spec: {inject: {metadata: {labels: {a: b}}}}}`)
	entry, _ := set.Get("side")
	canary, _ := set.Canary("next")
	restarted := func(ago time.Duration) string {
		return fmt.Sprintf(`, "containerStatuses": [{"name": "app", "lastState": {"terminated": {"finishedAt": %q}}}]`, time.Now().Add(-ago).UTC().Format(time.RFC3339))
	}
	const ready = `"conditions": [{"type": "Ready", "status": "True"}]`
	all := []struct{ template, hash, status string }{
		{"side", entry.Template.Hash(), ready},
		{"side", entry.Template.Hash(), ready + restarted(time.Hour)},
		{"side", entry.Template.Hash(), ready + `, "phase": "Succeeded"`},
		{"side", canary.Version.Hash(), ready},
		{"side", canary.Version.Hash(), ready + restarted(time.Minute)},
		{"side", canary.Version.Hash(), ready + strings.Replace(restarted(time.Minute), "container", "initContainer", 1)},
		{"side", canary.Version.Hash(), `"conditions": [{"type": "Ready", "status": "False"}]`},
		{"side", "0123456789abcdef", `"phase": "Pending"`},
		{"unheard", "0123456789abcdef", ready}, // no template of the cluster
	}
	c := &cluster{pods: map[string]int{"shop": len(all)}, pod: func(namespace string, n int) string {
		p := all[n]
		record := fmt.Sprintf(`{\"v\":1,\"templates\":{\"%s\":\"%s\"}}`, p.template, p.hash)
		return fmt.Sprintf(`{"metadata":{"name":"web-%d","namespace":%q,"annotations":{"pillion.dev/status":"%s"}},"spec":{"containers":[{"name":"web","image":"web:1"}]},"status":{%s}}`, n, namespace, record, p.status)
	}}
	counter, _ := counterOf(t, c, namespace("shop", "enabled"))
	counter.options.Templates = func() *templates.Set { return set }
	counter.record(counter.scan(t.Context()))
	const want = `
# HELP pillion_pods Pods with a template by version. ready is true for a pod with the condition Ready whose containers have not restarted for 10 minutes.
# TYPE pillion_pods gauge
pillion_pods{ready="false",template="side",version="(others)"} 1
pillion_pods{ready="false",template="side",version="(stable)"} 0
pillion_pods{ready="false",template="side",version="next"} 3
pillion_pods{ready="true",template="side",version="(others)"} 0
pillion_pods{ready="true",template="side",version="(stable)"} 2
pillion_pods{ready="true",template="side",version="next"} 1
`
	if err := testutil.CollectAndCompare(counter, strings.NewReader(want), "pillion_pods"); err != nil {
		t.Error(err)
	}

	// The versions that are to be compared are there before any pod has one.
	c.pods = nil
	counter.record(counter.scan(t.Context()))
	if n := testutil.CollectAndCount(counter, "pillion_pods"); n != 4 {
		t.Errorf("without pods there are %d series of the template and its canary", n)
	}
}
