package canary

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	spec   = `inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "side:%s"}]}}`
	header = `apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: `
)

// cluster is an API server with a template and its canary. Its replicas see each change at once.
type cluster struct {
	t *testing.T

	mu     sync.Mutex
	object store.Object
	// image is that of the canary, more what its spec.canary has besides.
	image, more string
	// ofStable is what the stable template has besides.
	ofStable string
	compiled map[string]*templates.Template
	pods     []string
	// statusOf replaces the status of the sidecar of pods that run is called for, where it is not empty.
	statusOf string
	writes   int
	// late is how long a list takes, unlisted how many of the next lists fail.
	late     time.Duration
	unlisted int
	// refuse is what becomes of a write.
	refuse func() error
	events []string
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, compiled: map[string]*templates.Template{}, image: "2", more: "percent: 50", object: store.Object{Name: "side-next", UID: "u", Generation: 1, ResourceVersion: "1"}}
}

// compile compiles each manifest once, as the store does.
func (c *cluster) compile(manifest string) *templates.Template {
	if c.compiled[manifest] == nil {
		c.compiled[manifest] = templatestest.Compile(c.t, manifest)
	}
	return c.compiled[manifest]
}

// set returns what is in force on a replica that has stopped the canary for itself, or not.
func (c *cluster) set(here bool) *templates.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	stable := c.compile(`{` + header + `side}, spec: {` + c.ofStable + fmt.Sprintf(spec, "1") + `}}`)
	canary := c.compile(`{` + header + `side-next}, spec: {canary: {of: side, ` + c.more + `}, ` + fmt.Sprintf(spec, c.image) + `}}`)
	return templates.NewSet([]templates.Entry{{Name: "side", Template: stable}, {Name: "side-next", Template: canary, Stopped: here || c.object.Status.IsStopped(c.object.Generation)}})
}

func (c *cluster) write(_ context.Context, name string, patch []byte) error {
	var written struct {
		Metadata struct{ ResourceVersion string }
		Status   v1alpha1.SidecarTemplateStatus
	}
	if err := json.Unmarshal(patch, &written); err != nil {
		return err
	}
	time.Sleep(10 * time.Millisecond) // the way to the API server
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		if err := c.refuse(); err != nil {
			return err
		}
	}
	if name != c.object.Name || written.Metadata.ResourceVersion != c.object.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "sidecartemplates"}, name, errors.New("the object has been modified"))
	}
	c.writes++
	c.object.Status.Conditions = written.Status.Conditions
	c.object.ResourceVersion += "1"
	return nil
}

// edit gives the canary another image, as a person does.
func (c *cluster) edit(image string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.image = image
	c.object.Generation++
	c.object.ResourceVersion += "2"
}

func (c *cluster) list(_ context.Context, _ string, o metav1.ListOptions) (io.ReadCloser, error) {
	if o.LabelSelector != "side.pillion.dev/hash" {
		c.t.Errorf("pods are selected by %q", o.LabelSelector)
	}
	time.Sleep(c.late)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unlisted > 0 {
		c.unlisted--
		return nil, errors.New("connection refused")
	}
	return io.NopCloser(strings.NewReader(`{"metadata":{},"items":[` + strings.Join(c.pods, ",") + `]}`)), nil
}

func (c *cluster) stopped() *metav1.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return meta.FindStatusCondition(c.object.Status.Conditions, v1alpha1.Stopped)
}

// run adds a pod of a workload with the sidecar of an image, which restarted so many times.
func (c *cluster) run(namespace, workload, image string, restarts int) {
	c.t.Helper()
	hash := templatestest.Compile(c.t, `{`+header+`side}, spec: {`+fmt.Sprintf(spec, image)+`}}`).Hash()
	record := fmt.Sprintf(`{"v":1,"templates":{"side":%q},"pod":{"spec":{"initContainers":{"name=side":{"$added":true}}}}}`, hash)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods = append(c.pods, fmt.Sprintf(`{"metadata":{"name":"x","uid":"%[1]s/%[3]s","namespace":%[1]q,"annotations":{"pillion.dev/status":%[2]q},"ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":%[3]q,"controller":true}]},
		"spec":{"initContainers":[{"name":"side"}],"containers":[{"name":"app"}]},"status":{"phase":"Running","startTime":"1990-01-01T00:00:00Z","initContainerStatuses":[{"name":"side",%[4]s}]}}`,
		namespace, record, workload, cmp.Or(c.statusOf, fmt.Sprintf(`"ready":true,"restartCount":%d,"lastState":{"terminated":{"exitCode":1,"finishedAt":%q}}`, restarts, time.Now().Format(time.RFC3339)))))
}

// replica is a process that watches the cluster.
type replica struct {
	*Watcher
	log  bytes.Buffer
	here bool // it has stopped the canary for itself
}

func (c *cluster) replica() *replica {
	r := &replica{}
	r.Watcher = New(Options{
		StatusKey: "pillion.dev/status", List: c.list, Refusals: NewRefusals(time.Now), Rules: DefaultRules, Ready: func() error { return nil }, Write: c.write,
		Templates: func() *templates.Set { return c.set(r.here) },
		Object: func(string) (store.Object, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			o := c.object
			o.Status.Conditions = slices.Clone(o.Status.Conditions)
			return o, true
		},
		Namespace: func(name string) (templates.Namespace, bool) {
			return templates.Namespace{Name: name, Labels: map[string]string{"canaries": "yes", "name": name}}, name != "gone"
		},
		Calls:    func(ns templates.Namespace, _ map[string]any) bool { return ns.Name != "elsewhere" },
		StopHere: func(string) { r.here = true },
		Stopped: func(o store.Object, message string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events = append(c.events, o.Name+": "+message)
		},
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	return r
}

// run runs replicas until the returned function is called.
func run(t *testing.T, replicas ...*replica) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, r := range replicas {
		running.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// wants compares the metrics of the canary with so many: whether it is stopped, and the workloads that fail
// or are healthy with the canary and with the stable version.
func wants(t *testing.T, r *replica, stopped, failingCanary, failingStable, healthyCanary, healthyStable int) {
	t.Helper()
	want := fmt.Sprintf(`
# HELP pillion_template_canary_stop_unwritten 1 for each canary that this replica has stopped for itself because it cannot write the condition Stopped, else 0.
# TYPE pillion_template_canary_stop_unwritten gauge
pillion_template_canary_stop_unwritten{template="side-next"} 0
# HELP pillion_template_canary_stopped 1 for each canary of a template that this replica gives to no pod any more because it is stopped, else 0.
# TYPE pillion_template_canary_stopped gauge
pillion_template_canary_stopped{template="side-next"} %d
# HELP pillion_template_canary_workloads Workloads with pods of a canary, and of the stable version beside it, by whether the template's containers fail. Absent until the replica has looked, and while it cannot.
# TYPE pillion_template_canary_workloads gauge
pillion_template_canary_workloads{state="failing",template="side-next",version="canary"} %d
pillion_template_canary_workloads{state="failing",template="side-next",version="stable"} %d
pillion_template_canary_workloads{state="healthy",template="side-next",version="canary"} %d
pillion_template_canary_workloads{state="healthy",template="side-next",version="stable"} %d
`, stopped, failingCanary, failingStable, healthyCanary, healthyStable)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "pillion_template_canary_stopped", "pillion_template_canary_workloads", "pillion_template_canary_stop_unwritten"); err != nil {
		t.Error(err)
	}
}

func wait(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestReplicasStopACanaryOnceAndAnEditStartsItAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		one, two := c.replica(), c.replica()
		defer run(t, one, two)()
		c.run("shop", "a", "2", 0)
		c.run("shop", "b", "1", 9)
		c.run("elsewhere", "c", "2", 9) // forged: nobody injects there
		c.run("gone", "d", "2", 9)
		c.run("other", "e", "2", 3) // one is tolerated
		c.run("other", "f", "old", 9)
		c.run("third", "g", "1", 0)
		wait(time.Minute)
		if s := c.stopped(); s != nil {
			t.Fatalf("stopped too early: %+v", s)
		}
		c.run("shop", "h", "2", 3)
		wait(20 * time.Second)
		s := c.stopped()
		if s == nil || s.Status != metav1.ConditionTrue || s.Reason != ContainersRestart || s.ObservedGeneration != 1 ||
			s.Message != "2 of 3 workloads fail with the canary, 1 of 2 with the stable version; tolerated: 1. other/statefulset/e: the container side restarted 3 times (exit code 1); shop/statefulset/h: the container side restarted 3 times (exit code 1)." {
			t.Fatalf("%+v", s)
		}
		wait(time.Minute)
		if len(c.events) != 1 || c.events[0] != "side-next: "+s.Message || c.writes != 1 {
			t.Errorf("%d writes, events %q", c.writes, c.events)
		}
		for _, r := range []*replica{one, two} {
			wants(t, r, 1, 2, 1, 1, 1)
		}
		// The pods of the version before the edit are of no version any more.
		c.edit("3")
		c.run("shop", "a", "3", 0)
		wait(time.Minute)
		if c.writes != 1 || c.set(false).Canaries()[0].Stopped {
			t.Errorf("%d writes, stopped: %+v", c.writes, c.stopped())
		}
	})
}

// The stable template's own fields are part of the canary's hash.
func TestAnEditOfTheStableTemplateForgetsNoPodOfTheCanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer run(t, c.replica())()
		wait(time.Minute)
		c.mu.Lock()
		c.ofStable = "order: 5, "
		c.mu.Unlock()
		c.run("shop", "a", "2", 3)
		c.run("shop", "b", "2", 3)
		wait(time.Minute)
		if s := c.stopped(); s == nil || s.Reason != ContainersRestart {
			t.Errorf("%+v", s)
		}
	})
}

func TestAReplicaThatCannotWriteStopsForItselfAndWritesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.refuse = func() error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "sidecartemplates"}, "side-next", errors.New("no"))
		}
		r := c.replica()
		defer run(t, r)()
		c.run("shop", "a", "2", 3)
		c.run("other", "b", "2", 3)
		wait(5 * time.Minute)
		if !r.here || c.stopped() != nil || strings.Count(r.log.String(), "writing the condition Stopped of the canary side-next") != 1 {
			t.Errorf("stopped here: %v, %+v\n%s", r.here, c.stopped(), r.log.String())
		}
		if got := r.looks["side-next"]; !got.unwritten {
			t.Errorf("%+v", got)
		}
		c.mu.Lock()
		c.refuse, c.pods = nil, nil // what failed is gone, and the decision stands
		c.mu.Unlock()
		wait(20 * time.Second)
		if s := c.stopped(); s == nil || s.Reason != ContainersRestart || len(c.events) != 1 {
			t.Errorf("%+v, events %q", s, c.events)
		}
	})
}

func TestADecisionAboutAnEditedCanaryIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		edited := false
		c.refuse = func() error {
			if !edited { // while the write is on its way
				edited = true
				c.image, c.object.Generation = "3", 2
				c.object.ResourceVersion += "2"
			}
			return nil
		}
		defer run(t, c.replica())()
		c.run("shop", "a", "2", 3)
		c.run("other", "b", "2", 3)
		wait(time.Minute)
		if s := c.stopped(); !edited || s != nil {
			t.Errorf("edited: %v, %+v", edited, s)
		}
	})
}

// A look that comes to nothing is made again within seconds, and not at the time of the next one: until
// the canary stops it has pods refused.
func TestALookThatComesToNothingIsMadeAgainSoon(t *testing.T) {
	conflict := func(c *cluster) {
		n := 0
		c.refuse = func() error {
			if n++; n == 1 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "sidecartemplates"}, "side-next", errors.New("the object has been modified"))
			}
			return nil
		}
	}
	for name, trouble := range map[string]func(c *cluster, r *replica){
		"the replica is not ready": func(_ *cluster, r *replica) {
			n := 0
			r.options.Ready = func() error {
				if n++; n == 1 {
					return errors.New("the cache is stale")
				}
				return nil
			}
		},
		"pods cannot be listed":                     func(c *cluster, _ *replica) { c.unlisted = 1 },
		"the object is newer":                       func(c *cluster, _ *replica) { conflict(c) },
		"the object is newer, and a list takes 3 s": func(c *cluster, _ *replica) { c.late = 3 * time.Second; conflict(c) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				r := c.replica()
				trouble(c, r)
				defer run(t, r)()
				c.run("shop", "a", "2", 3)
				c.run("other", "b", "2", 3)
				wait(Every*11/10 + 3*c.late + retry + time.Second)
				if c.stopped() == nil {
					t.Error("the canary goes on")
				}
			})
		})
	}
}

func TestANamespaceThatTheCanaryDoesNotSelectDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.more = "namespaceSelector: {matchLabels: {canaries: staging}}"
		defer run(t, c.replica())()
		c.run("shop", "a", "2", 3)
		c.run("other", "b", "2", 3)
		wait(time.Minute)
		if s := c.stopped(); s != nil {
			t.Errorf("%+v", s)
		}
	})
}

// A fresh copy is a canary that changes nothing yet. Its pods are those of the stable version.
func TestACanaryThatIsAsTheStableVersionIsWatchedAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.image, c.more = "1", "namespaceSelector: {matchLabels: {name: shop}}"
		r := c.replica()
		defer run(t, r)()
		c.run("shop", "a", "1", 3)
		c.run("shop", "b", "1", 3)
		c.run("other", "c", "1", 0)
		wait(time.Minute)
		if s := c.stopped(); s != nil {
			t.Errorf("%+v", s)
		}
		wants(t, r, 0, 2, 2, 0, 1)
	})
}

// The clocks of nodes and replicas may differ by years. The clock of the cluster's nodes says 2000.
func TestFiveMinutesAreThoseThatAReplicaHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for name, state := range map[string]string{
			"waiting":     `"state":{"waiting":{"reason":"CrashLoopBackOff"}}`,
			"running":     `"state":{"running":{"startedAt":"1999-01-01T00:00:00Z"}}`,
			"of tomorrow": `"state":{"running":{"startedAt":"2099-01-01T00:00:00Z"}}`,
		} {
			c.statusOf = `"ready":false,"restartCount":0,` + state
			c.run(name, "a", "2", 0)
		}
		defer run(t, c.replica())()
		wait(4 * time.Minute)
		if s := c.stopped(); s != nil {
			t.Errorf("after four minutes: %+v", s)
		}
		c.mu.Lock()
		pods := c.pods
		c.pods = nil
		for i, pod := range pods { // it was ready for a moment, or started anew
			c.pods = append(c.pods, strings.NewReplacer("1999-01-01T00:00:00Z", "1999-01-01T00:04:00Z", "2099-01-01T00:00:00Z", "2099-01-01T00:04:00Z",
				`"startTime":"1990-01-01T00:00:00Z"`, `"startTime":"1990-01-01T00:00:00Z","conditions":[{"type":"ContainersReady","status":"False","lastTransitionTime":"1990-01-01T00:04:00Z"}]`).Replace(pod))
			if c.pods[i] == pod {
				t.Errorf("the same pod: %s", pod)
			}
		}
		c.mu.Unlock()
		wait(4 * time.Minute)
		if s := c.stopped(); s != nil {
			t.Errorf("four minutes after that: %+v", s)
		}
		wait(2 * time.Minute)
		if s := c.stopped(); s == nil || s.Reason != ContainersNotReady || !strings.HasPrefix(s.Message, "3 of 3 workloads fail") {
			t.Errorf("six minutes after that: %+v", s)
		}
	})
}

// Refused pods count until their workload gets a pod, or for twenty minutes.
func TestRefusedPodsCountAsFailures(t *testing.T) {
	at := time.Now()
	refusals := NewRefusals(func() time.Time { return at })
	set := templates.NewSet([]templates.Entry{
		{Name: "side", Template: templatestest.Compile(t, `{`+header+`side}, spec: {`+fmt.Sprintf(spec, "1")+`}}`)},
		{Name: "side-next", Template: templatestest.Compile(t, `{`+header+`side-next}, spec: {canary: {of: side, percent: 100}, validations: [{name: v, expression: "pod.metadata.?labels.?good.hasValue()", message: no label good}], `+fmt.Sprintf(spec, "2")+`}}`)},
	})
	canary, _ := set.Canary("side-next")
	create := func(workload, labels string) {
		t.Helper()
		var pod map[string]any
		text := fmt.Sprintf(`{"metadata":{"namespace":"shop","labels":{%s},"annotations":{"pillion.dev/inject":"side"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":%q,"controller":true}]},"spec":{"containers":[{"name":"app","image":"app:1"}]}}`, labels, workload)
		if err := json.Unmarshal([]byte(text), &pod); err != nil {
			t.Fatal(err)
		}
		out, err := injector.NewPipeline(injector.Config{}).Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: set})
		if err != nil {
			t.Fatal(err)
		}
		refusals.Note(set, "shop", pod, out)
	}
	health := func(hash string) Health {
		h := Health{}
		refusals.Add(h, Version{"side", hash})
		return h
	}
	for range 3 {
		create("a", "")
		create("b", "")
	}
	h := health(canary.Version.Hash())
	if got := h.Failing(); len(h) != 2 || len(got) != 2 || h[got[0]] != (Failure{PodsRefused, "its pods are refused: template side: no label good"}) || len(health("stable")) != 0 {
		t.Errorf("%+v", h)
	}
	create("a", `"good":""`)
	if h := health(canary.Version.Hash()); len(h) != 1 {
		t.Errorf("after a pod of the workload: %+v", h)
	}
	at = at.Add(21 * time.Minute)
	if h := health(canary.Version.Hash()); len(h) != 0 || len(refusals.in) != 0 {
		t.Errorf("much later: %+v", h)
	}
	for i := range 1000 { // a tenant makes up workloads
		create(fmt.Sprint(i), "")
	}
	if h := health(canary.Version.Hash()); len(h) != mostRefused {
		t.Errorf("%d workloads are remembered", len(h))
	}
}
