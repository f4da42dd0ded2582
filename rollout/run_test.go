package rollout_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/rollout"
	"github.com/pillion-dev/pillion/templates"
)

// cluster is a cluster with one namespace, its controllers and a node. Each list of pods is
// a moment in which they get on with their work.
type cluster struct {
	t        *testing.T
	pipeline *injector.Pipeline
	// set is what the webhook has.
	set    *templates.Set
	ns     templates.Namespace
	owners map[string]*owner
	pods   []map[string]any

	// uncalled: API servers do not call Pillion. unready: new pods never become ready.
	// Slow is how many steps a controller takes to make a new pod.
	uncalled, unready bool
	slow              int
	// unpullable is an image that a container with it waits for, with the reason waiting.
	unpullable, waiting string
	// budget is how many pods of an owner have to be ready; budgetEnds is when nobody
	// refuses evictions any more.
	budget     int
	budgetEnds time.Time
	lacks      map[string]bool // rights, as verb resource
	refuse     error           // of patches of pods

	made     int
	touched  int
	writes   []string
	leastOf  map[string]int // fewest ready pods
	patching func()
}

type owner struct {
	rollout.Owner
	replicas   int
	generation int
	template   string
	paused     bool
	reason     string // of the condition Progressing
	old        string // the image in the pod template of a Deployment's ReplicaSet
	waited     int    // steps without a pod
}

func newCluster(t *testing.T, before, now shipper) *cluster {
	c := &cluster{t: t, pipeline: injector.NewPipeline(injector.Config{}), set: setOf(t, before.manifest()), owners: map[string]*owner{}, leastOf: map[string]int{}, lacks: map[string]bool{},
		ns: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}, Labels: map[string]string{"pillion.dev/injection": "enabled"}}}
	c.own("Deployment", "web", 4)
	c.own("StatefulSet", "db", 2)
	c.settle()
	c.set = setOf(t, now.manifest())
	c.leastOf = map[string]int{}
	return c
}

func (c *cluster) own(kind, name string, replicas int) {
	c.owners[name] = &owner{Owner: rollout.Owner{Namespace: "shop", APIVersion: "apps/v1", Kind: kind, Name: name}, replicas: replicas,
		template: fmt.Sprintf(`{"metadata": {"generateName": "%s-", "namespace": "shop", "labels": {"app": "%s"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}`, name, name)}
}

func (c *cluster) settle() {
	for range 8 {
		c.step()
	}
}

// step is what happens between two looks.
func (c *cluster) step() {
	c.pods = slices.DeleteFunc(c.pods, func(p map[string]any) bool { return meta(p)["deletionTimestamp"] != nil })
	for _, name := range slices.Sorted(maps.Keys(c.owners)) {
		o := c.owners[name]
		var own []map[string]any
		for _, p := range c.pods {
			if meta(p)["owner"] == name {
				own = append(own, p)
			}
		}
		for _, p := range own { // a rolling update
			if meta(p)["of"] != o.generation && c.ready(name) >= o.replicas {
				meta(p)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
				break
			}
		}
		if len(own) == o.replicas {
			o.waited = 0
		} else if o.waited++; o.waited > c.slow {
			c.create(o)
		}
		c.leastOf[name] = min(c.leastOf[name], c.ready(name))
	}
	for _, p := range c.pods { // the kubelet
		status := p["status"].(map[string]any)
		before := fmt.Sprint(status)
		if status["made"] == true && !c.unready {
			status["conditions"] = []any{map[string]any{"type": "Ready", "status": "True"}}
		}
		status["made"] = true
		var statuses []any
		for _, item := range p["spec"].(map[string]any)["initContainers"].([]any) {
			s := item.(map[string]any)
			if c.unpullable != "" && s["image"] == c.unpullable {
				statuses = append(statuses, map[string]any{"name": s["name"], "ready": false, "state": map[string]any{"waiting": map[string]any{"reason": c.waiting, "message": "no such image"}}})
				continue
			}
			statuses = append(statuses, map[string]any{"name": s["name"], "containerID": fmt.Sprint("of ", s["image"]), "ready": true, "state": map[string]any{"running": map[string]any{}}})
		}
		status["initContainerStatuses"] = statuses
		if fmt.Sprint(status) != before {
			c.touch(p)
		}
	}
}

// touch gives an object another resourceVersion.
func (c *cluster) touch(pod map[string]any) {
	c.touched++
	meta(pod)["resourceVersion"] = fmt.Sprint(c.touched)
}

func meta(pod map[string]any) map[string]any { return pod["metadata"].(map[string]any) }

func (c *cluster) ready(name string) (n int) {
	for _, p := range c.pods {
		if meta(p)["owner"] == name && meta(p)["deletionTimestamp"] == nil && p["status"].(map[string]any)["conditions"] != nil {
			n++
		}
	}
	return n
}

func (c *cluster) create(o *owner) {
	pod := decodePod(c.t, o.template)
	if !c.uncalled {
		out, err := c.pipeline.Inject(context.Background(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: c.ns, Templates: c.set})
		if err != nil || !out.Allowed {
			return // the controller tries again
		}
		pod = clone(c.t, out.Pod)
	}
	c.made++
	maps.Copy(meta(pod), map[string]any{"name": fmt.Sprint(o.Name, "-", c.made), "uid": fmt.Sprint(c.made), "resourceVersion": "1", "owner": o.Name, "of": o.generation,
		"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": o.Kind, "name": o.Name, "controller": true, "blockOwnerDeletion": true}}})
	spec := pod["spec"].(map[string]any)
	spec["nodeName"] = "node"
	if spec["initContainers"] == nil {
		spec["initContainers"] = []any{}
	}
	pod["status"] = map[string]any{"phase": "Running"}
	c.pods = append(c.pods, pod)
}

func (c *cluster) Pods(ctx context.Context, _ string, f func(map[string]any) error) error {
	c.step()
	for _, p := range c.pods {
		if err := f(clone(c.t, p)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

var podResource = schema.GroupResource{Resource: "pods"}

func (c *cluster) find(name string) map[string]any {
	for _, p := range c.pods {
		if meta(p)["name"] == name {
			return p
		}
	}
	return nil
}

func (c *cluster) Pod(_ context.Context, _, name string) (map[string]any, error) {
	c.step()
	p := c.find(name)
	if p == nil {
		return nil, apierrors.NewNotFound(podResource, name)
	}
	return clone(c.t, p), nil
}

func (c *cluster) Namespace(context.Context, string) (templates.Namespace, error) { return c.ns, nil }

func (c *cluster) Object(_ context.Context, o rollout.Owner) (map[string]any, error) {
	own := c.owners[o.Name]
	template := func(image string) map[string]any {
		return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": image}}}}
	}
	if o.Kind == "ReplicaSet" {
		return map[string]any{"metadata": map[string]any{"namespace": "shop", "ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": own.Kind, "name": own.Name, "controller": true}}},
			"spec": map[string]any{"template": template(own.old)}}, nil
	}
	updated := 0
	for _, p := range c.pods {
		if meta(p)["owner"] == o.Name && meta(p)["of"] == own.generation && meta(p)["deletionTimestamp"] == nil {
			updated++
		}
	}
	n := func(i int) json.Number { return json.Number(fmt.Sprint(i)) }
	return map[string]any{"spec": map[string]any{"replicas": n(own.replicas), "paused": own.paused, "template": template("web:1")},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Progressing", "reason": own.reason}}, "replicas": n(own.replicas), "updatedReplicas": n(updated), "availableReplicas": n(c.ready(o.Name)), "readyReplicas": n(c.ready(o.Name))}}, nil
}

func (c *cluster) Create(ctx context.Context, _ string, pod map[string]any) (map[string]any, error) {
	if refs := meta(pod)["ownerReferences"].([]any); refs[0].(map[string]any)["blockOwnerDeletion"] != nil || meta(pod)["name"] != nil || pod["spec"].(map[string]any)["nodeName"] != nil {
		c.t.Errorf("a pod to try is %v", pod)
	}
	if err := c.may("create", "", "pods"); err != nil || c.uncalled {
		return pod, err
	}
	out, err := c.pipeline.Inject(ctx, injector.Request{Operation: "CREATE", Pod: pod, Namespace: c.ns, Templates: c.set})
	return out.Pod, err
}

func (c *cluster) Evict(_ context.Context, pod rollout.Pod, dryRun bool) error {
	if err := c.may("create", "", "pods/eviction"); err != nil {
		return err
	}
	p := c.find(pod.Name)
	if p == nil || meta(p)["uid"] != pod.UID {
		return apierrors.NewNotFound(podResource, pod.Name)
	}
	if owner := meta(p)["owner"].(string); c.ready(owner)-1 < c.budget && time.Now().Before(c.budgetEnds) {
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	}
	if !dryRun {
		c.writes = append(c.writes, "evict "+pod.Name)
		meta(p)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
		owner := meta(p)["owner"].(string)
		if n := c.ready(owner); n < c.leastOf[owner] || c.leastOf[owner] == 0 {
			c.leastOf[owner] = n
		}
	}
	return nil
}

func (c *cluster) Patch(_ context.Context, pod rollout.Pod, patch []byte, dryRun bool) error {
	if f := c.patching; f != nil {
		c.patching = nil
		f()
	}
	if err := cmp.Or(c.may("patch", "", "pods"), c.refuse); err != nil {
		return err
	}
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(c.pods, func(p map[string]any) bool { return meta(p)["uid"] == pod.UID })
	owner, of := meta(c.pods[at])["owner"], meta(c.pods[at])["of"]
	text, err := json.Marshal(c.pods[at])
	if err != nil {
		return err
	}
	after, err := p.Apply(text)
	if err != nil {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, pod.Name, nil)
	}
	if !dryRun {
		c.writes = append(c.writes, "patch "+pod.Name)
		c.pods[at] = decodePod(c.t, string(after))
		maps.Copy(meta(c.pods[at]), map[string]any{"owner": owner, "of": of})
		c.touch(c.pods[at])
	}
	return nil
}

func (c *cluster) Restart(_ context.Context, o rollout.Owner, _ time.Time, dryRun bool) error {
	err := c.may("patch", "apps", strings.ToLower(o.Kind)+"s")
	if err == nil && !dryRun {
		c.writes = append(c.writes, "restart "+o.Name)
		c.owners[o.Name].generation++
	}
	return err
}

// may is the API server's answer to the user jane who does something: nil if she has the right.
func (c *cluster) may(verb, group, resource string) error {
	if !c.lacks[verb+" "+resource] {
		return nil
	}
	says := fmt.Errorf("User %q cannot %s resource %q in API group %q in the namespace %q", "jane", verb, resource, group, "shop")
	return rights.Named(apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "", says))
}

// roll runs a rollout and returns what it said.
func (c *cluster) roll(mode rollout.Mode, change ...func(*rollout.Options)) (string, error) {
	return c.rollIn(context.Background(), mode, change...)
}

func (c *cluster) rollIn(ctx context.Context, mode rollout.Mode, change ...func(*rollout.Options)) (string, error) {
	wave, err := rollout.ParseWave("100%")
	if err != nil {
		c.t.Fatal(err)
	}
	var out bytes.Buffer
	o := rollout.Options{Cluster: c, Mode: mode, Selector: labels.Everything(), Wave: wave, Timeout: time.Minute, Poll: time.Second, Out: &out,
		Judge: rollout.Judge{Comparer: drift.Comparer{Pipeline: c.pipeline}, Templates: c.set}}
	for _, f := range change {
		f(&o)
	}
	err = rollout.Run(ctx, o)
	return out.String(), err
}

func dryRun(o *rollout.Options) { o.DryRun = true }

var one, two = shipper{image: "ship:1", level: "info"}, shipper{image: "ship:2", level: "info"}

// onCluster runs a test in which time passes at once.
func onCluster(t *testing.T, before, now shipper, f func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) { f(t, newCluster(t, before, now)) })
}

func TestEveryModeBringsAllPodsUpToDateAndASecondRunDoesNothing(t *testing.T) {
	for mode, writes := range map[rollout.Mode]int{rollout.Evict: 6, rollout.Restart: 2, rollout.InPlaceMode: 6} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			if out, err := c.roll(mode, dryRun); err != nil || len(c.writes) > 0 || !strings.Contains(out, "deployment/web in namespace shop") || !strings.Contains(out, "nothing was touched") {
				t.Errorf("%s: a dry run writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
			out, err := c.roll(mode)
			if err != nil || len(c.writes) != writes || !strings.Contains(out, "6 of 6 pods up to date") {
				t.Errorf("%s writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
			if !strings.Contains(out, "wave 1: ") || strings.Contains(strings.SplitN(strings.SplitAfter(out+"wave 1: ", "wave 1: ")[1], "\n", 2)[0], ",") {
				t.Errorf("%s: the first wave takes more than one:\n%s", mode, out)
			}
			for name, least := range c.leastOf {
				if o := c.owners[name]; mode == rollout.Evict && least < o.replicas-1 {
					t.Errorf("%s had %d of %d pods ready at least", name, least, o.replicas)
				}
			}
			c.writes = nil
			if out, err := c.roll(mode); err != nil || len(c.writes) > 0 || !strings.Contains(out, "6 of 6 pods up to date") {
				t.Errorf("%s once more writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
		})
	}
}

func TestARolloutGoesOnWhereItStopped(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		c.unready = true
		out, err := c.roll(rollout.Evict)
		if err == nil || !strings.Contains(err.Error(), "stopped: not done within 1m0s: pod shop/") || !strings.Contains(err.Error(), "which is new, is not ready") || len(c.writes) != 1 {
			t.Fatalf("with new pods that never become ready it writes %v and says (%v)\n%s", c.writes, err, out)
		}
		c.unready = false
		c.settle()
		if out, err := c.roll(rollout.Evict); err != nil || len(c.writes) != 6 {
			t.Errorf("afterwards it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
}

// A pod that never was ready is no loss, but what takes its place has to be there, and ready.
func TestAPodThatIsNotReadyGoesFirstAndItsSuccessorIsWaitedFor(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		for _, p := range c.pods {
			if meta(p)["name"] == "web-6" || meta(p)["name"] == "web-5" {
				delete(p["status"].(map[string]any), "conditions")
				p["status"].(map[string]any)["made"] = false
				c.touch(p)
			}
		}
		c.unready, c.slow = true, 5
		out, err := c.roll(rollout.Evict)
		if err == nil || len(c.writes) != 1 || !strings.Contains(err.Error(), "which is new, is not ready") || !strings.Contains("evict web-5 evict web-6", c.writes[0]) {
			t.Errorf("it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
}

func TestAWorkloadWithoutAnyPodForAMomentIsWaitedFor(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		c.owners["web"].replicas, c.owners["db"].replicas, c.slow = 0, 1, 5
		c.pods = slices.DeleteFunc(c.pods, func(p map[string]any) bool { return meta(p)["name"] != "db-1" })
		out, err := c.roll(rollout.Evict)
		if err != nil || len(c.writes) != 1 || c.ready("db") != 1 || !strings.Contains(out, "1 of 1 pods up to date") {
			t.Errorf("it writes %v and says (%v), and %d pods are ready\n%s", c.writes, err, c.ready("db"), out)
		}
	})
}

func TestABudgetIsWaitedFor(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		c.budget, c.budgetEnds = 9, time.Now().Add(30*time.Second)
		if out, err := c.roll(rollout.Evict); err != nil || len(c.writes) != 6 || !strings.Contains(out, "waiting: deployment/web in namespace shop: Cannot evict pod as it would violate the pod's disruption budget.; statefulset/db in namespace shop: Cannot") {
			t.Errorf("it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		c.budget, c.budgetEnds = 9, time.Now().Add(time.Hour)
		if out, err := c.roll(rollout.Evict); !errors.Is(err, rollout.ErrLeft) || len(c.writes) != 0 || !strings.Contains(out, "left: 4 pods of deployment/web in namespace shop: outdated: shipper; not done within 1m0s: Cannot evict pod") {
			t.Errorf("it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
}

// One workload that cannot be brought up to date now keeps no other from it. The command that is
// named leaves it out, and has nothing to wait for.
func TestTheRestGoesOnWhereOneWorkloadCannot(t *testing.T) {
	paused := func(c *cluster) { c.owners["web"].paused = true }
	budget := func(c *cluster) { c.budget, c.budgetEnds = 2, time.Now().Add(time.Hour) }
	for name, test := range map[string]struct {
		mode        rollout.Mode
		change      func(*cluster)
		writes      int
		left, other string
		says        string
	}{
		"a paused Deployment":          {rollout.Restart, paused, 1, "shop/deployment/web", "restart db", "left: 4 pods of deployment/web in namespace shop: outdated: shipper; it is paused: kubectl -n shop rollout resume deployment/web"},
		"a budget that lets no pod go": {rollout.Evict, budget, 4, "shop/statefulset/db", "evict web-", "left: 2 pods of statefulset/db in namespace shop: outdated: shipper; not done within 1m0s: Cannot evict pod"},
	} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			test.change(c)
			command := func(o *rollout.Options) { o.Command = "pillion rollout shop" }
			out, err := c.roll(test.mode, command, dryRun)
			if test.mode == rollout.Restart && (!errors.Is(err, rollout.ErrLeft) || !strings.Contains(out, test.says)) || len(c.writes) > 0 {
				t.Errorf("%s: a dry run writes %v and says (%v)\n%s", name, c.writes, err, out)
			}
			out, err = c.roll(test.mode, command)
			if !errors.Is(err, rollout.ErrLeft) || len(c.writes) != test.writes || !strings.Contains(strings.Join(c.writes, " "), test.other) ||
				!strings.Contains(out, test.says) || !strings.Contains(out, "\nwithout them: pillion rollout shop --except "+test.left+"\n") || !strings.Contains(out, "done: ") {
				t.Errorf("%s: it writes %v and says (%v)\n%s", name, c.writes, err, out)
			}
			c.set = setOf(t, shipper{image: "ship:3", level: "info"}.manifest())
			c.writes = nil
			began := time.Now()
			out, err = c.roll(test.mode, command, func(o *rollout.Options) { o.Except = []string{test.left} })
			if err != nil || len(c.writes) != test.writes || !strings.Contains(out, "left out by --except") || time.Since(began) > 50*time.Second {
				t.Errorf("%s: without it, it writes %v after %s and says (%v)\n%s", name, c.writes, time.Since(began), err, out)
			}
		})
	}
}

func TestNothingIsTouchedWhereNewPodsWouldBeWorse(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cluster)
		modes  []rollout.Mode
		want   string
	}{
		"a new pod would be refused": {change: func(c *cluster) {
			c.ns.Annotations["shipper.pillion.dev/level"] = "x"
			c.ns.Annotations["pillion.dev/inject"] = "shipper,typo"
		},
			modes: []rollout.Mode{rollout.Evict, rollout.Restart, rollout.InPlaceMode}, want: "nothing was touched: a new pod of deployment/web in namespace shop, or of statefulset/db in namespace shop would be refused: "},
		"API servers do not call Pillion": {change: func(c *cluster) { c.uncalled = true },
			modes: []rollout.Mode{rollout.Evict, rollout.Restart}, want: "a new pod of deployment/web in namespace shop would not be up to date: it comes without shipper"},
		"the right to evict is missing": {change: func(c *cluster) { c.lacks["create pods/eviction"] = true },
			modes: []rollout.Mode{rollout.Evict}, want: "you lack the right to create pods/eviction in namespace shop. An admin can grant it: kubectl -n shop create role pillion-create-pods-eviction --verb=create --resource=pods/eviction; kubectl -n shop create rolebinding pillion-create-pods-eviction --role=pillion-create-pods-eviction --user=jane"},
		"the right to change pods is missing": {change: func(c *cluster) { c.lacks["patch pods"] = true },
			modes: []rollout.Mode{rollout.InPlaceMode}, want: "you lack the right to patch pods in namespace shop"},
		"the right to change Deployments is missing": {change: func(c *cluster) { c.lacks["patch deployments"] = true },
			modes: []rollout.Mode{rollout.Restart}, want: "you lack the right to patch deployments.apps in namespace shop"},
		"somebody refuses the change": {change: func(c *cluster) {
			c.refuse = errors.New("admission webhook denied the request: an image that is not allowed")
		},
			modes: []rollout.Mode{rollout.InPlaceMode}, want: "nothing was touched: admission webhook denied the request: an image that is not allowed"},
	} {
		for _, mode := range test.modes {
			onCluster(t, one, two, func(t *testing.T, c *cluster) {
				test.change(c)
				for _, dry := range []bool{true, false} {
					if out, err := c.roll(mode, func(o *rollout.Options) { o.DryRun = dry }); err == nil || len(c.writes) > 0 || !strings.Contains(err.Error(), test.want) {
						t.Errorf("%s, %s: it writes %v and says (%v)\n%s\nwant %q", name, mode, c.writes, err, out, test.want)
					}
				}
			})
		}
	}
}

// Where new pods cannot be tried by dry run, the first one tells.
func TestItStopsAtANewPodThatIsNotUpToDate(t *testing.T) {
	for _, mode := range []rollout.Mode{rollout.Evict, rollout.Restart} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			c.lacks["create pods"], c.uncalled = true, true
			out, err := c.roll(mode)
			if err == nil || len(c.writes) != 1 || !strings.Contains(err.Error(), "which is new, is not up to date (missing: shipper)") || !strings.Contains(out, "only worked out") {
				t.Errorf("%s writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
		})
	}
}

func TestPodsThatNothingReplacesAreListedAndLeftAlone(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		bare, job := clone(t, c.pods[0]), clone(t, c.pods[0])
		maps.Copy(meta(bare), map[string]any{"name": "bare", "uid": "b", "ownerReferences": []any{}, "owner": "nobody"})
		maps.Copy(meta(job), map[string]any{"name": "job", "uid": "j", "owner": "nobody",
			"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": "import", "controller": true}}})
		c.pods = append(c.pods, bare, job)
		out, err := c.roll(rollout.Evict)
		if err != nil || len(c.writes) != 6 || slices.Contains(c.writes, "evict bare") || slices.Contains(c.writes, "evict job") {
			t.Errorf("it writes %v (%v)", c.writes, err)
		}
		for _, want := range []string{"not touched: pod/bare in namespace shop: outdated: shipper; no controller replaces it", "not touched: job/import in namespace shop: outdated: shipper; the Job's work would start again", "6 of 8 pods up to date"} {
			if !strings.Contains(out, want) {
				t.Errorf("it says\n%s\nwant %q", out, want)
			}
		}
	})
}

// A Deployment that rolls out replaces the pods of its old ReplicaSet anyway. One that is paused, or
// makes no progress, does not.
func TestPodsThatTheirDeploymentReplacesAreLeftToIt(t *testing.T) {
	for name, test := range map[string]struct {
		old    string // the image in the ReplicaSet's pod template
		status string
		paused bool
		left   bool
	}{
		"a Deployment that rolls out":              {old: "web:0", left: true},
		"the newest ReplicaSet":                    {old: "web:1"},
		"a Deployment that is paused":              {old: "web:0", paused: true},
		"a Deployment that makes no progress more": {old: "web:0", status: "ProgressDeadlineExceeded"},
	} {
		for _, mode := range []rollout.Mode{rollout.Evict, rollout.InPlaceMode} {
			onCluster(t, one, two, func(t *testing.T, c *cluster) {
				c.owners["web"].paused, c.owners["web"].reason = test.paused, test.status
				c.owners["web"].old = test.old
				for _, p := range c.pods {
					if meta(p)["owner"] == "web" {
						meta(p)["ownerReferences"].([]any)[0].(map[string]any)["kind"] = "ReplicaSet"
					}
				}
				if out, err := c.roll(mode, dryRun); err != nil || len(c.writes) > 0 {
					t.Errorf("%s, %s, by dry run: it writes %v and says (%v)\n%s", name, mode, c.writes, err, out)
				}
				out, err := c.roll(mode)
				writes, says := 6, "6 of 6 pods up to date"
				if test.left {
					writes, says = 2, "4 pods are left to their Deployments, which are replacing them"
				}
				if errors.Is(err, rollout.ErrLeft) != test.left || !test.left && err != nil || len(c.writes) != writes || !strings.Contains(out, says) ||
					strings.Contains(out, "not touched: 4 pods of deployment/web in namespace shop: outdated: shipper; its Deployment is replacing it: kubectl -n shop rollout status deployment/web") != test.left {
					t.Errorf("%s, %s: it writes %v and says (%v)\n%s", name, mode, c.writes, err, out)
				}
			})
		}
	}
}

func TestInPlaceLeavesWhatItCannotDoAndSaysSo(t *testing.T) {
	onCluster(t, one, shipper{image: "ship:2", level: "debug"}, func(t *testing.T, c *cluster) {
		out, err := c.roll(rollout.InPlaceMode)
		if !errors.Is(err, rollout.ErrLeft) || len(c.writes) > 0 || !strings.Contains(out, "not touched: 4 pods of deployment/web in namespace shop: outdated: shipper; not in place: its sidecar shipper would change in") || !strings.Contains(out, "6 pods cannot be changed in place: --evict or --restart") {
			t.Errorf("it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
}

func TestAnotherTemplateWithoutEffectOnThePodsChangesNone(t *testing.T) {
	for _, mode := range []rollout.Mode{rollout.Evict, rollout.Restart, rollout.InPlaceMode} {
		onCluster(t, one, shipper{image: "ship:1", level: "info", unread: "other words"}, func(t *testing.T, c *cluster) {
			out, err := c.roll(mode)
			if err != nil || len(c.writes) > 0 || !strings.Contains(out, "6 of 6 pods up to date") {
				t.Errorf("%s writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
		})
	}
}

func TestAPodThatChangesInBetweenIsReadAgain(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		c.patching = func() { // of the dry run
			c.touch(c.pods[0])
			c.patching = func() { c.touch(c.pods[0]); c.touch(c.pods[4]) }
		}
		if out, err := c.roll(rollout.InPlaceMode); err != nil || len(c.writes) != 6 {
			t.Errorf("it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
}

// An image that cannot be pulled keeps one pod's sidecar down. With the image mended, the same
// command begins with that pod.
func TestAnImageThatDoesNotComeStopsTheRolloutAndIsMendedByTheNext(t *testing.T) {
	for waiting, within := range map[string]string{"ImagePullBackOff": "not done within 1m0s: sidecar shipper of pod shop/web-2 does not run with the image ship:2: ImagePullBackOff",
		"InvalidImageName": "sidecar shipper of pod shop/web-2 does not start with the image ship:2: InvalidImageName: no such image"} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			c.unpullable, c.waiting = "ship:2", waiting
			out, err := c.roll(rollout.InPlaceMode)
			if err == nil || len(c.writes) != 1 || !strings.Contains(err.Error(), "stopped: "+within) {
				t.Fatalf("it writes %v and says (%v)\n%s\nwant %q", c.writes, err, out, within)
			}
			c.set = setOf(t, shipper{image: "ship:3", level: "info"}.manifest())
			if out, err := c.roll(rollout.InPlaceMode); err != nil || len(c.writes) != 7 || c.writes[1] != "patch web-2" {
				t.Errorf("it writes %v and says (%v)\n%s", c.writes, err, out)
			}
		})
	}
}

func TestAnInterruptedRolloutSaysHowToGoOn(t *testing.T) {
	for _, mode := range []rollout.Mode{rollout.Evict, rollout.Restart, rollout.InPlaceMode} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			c.unready, c.unpullable = true, "ship:2"
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, stop)
			out, err := c.rollIn(ctx, mode)
			if err == nil || len(c.writes) != 1 || !strings.Contains(err.Error(), "stopped: interrupted: ") || !strings.Contains(err.Error(), "; the same command goes on from here") {
				t.Errorf("%s writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
		})
	}
}

func TestASelectorAndATemplateLimitWhatIsRolled(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		selector, err := labels.Parse("app=db")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := c.roll(rollout.Evict, func(o *rollout.Options) { o.Judge.Template = "another" }); err != nil || len(c.writes) > 0 {
			t.Errorf("for another template it writes %v and says (%v)\n%s", c.writes, err, out)
		}
		if out, err := c.roll(rollout.Evict, func(o *rollout.Options) { o.Selector = selector }); err != nil || len(c.writes) != 2 || !strings.Contains(strings.Join(c.writes, " "), "evict db-") {
			t.Errorf("it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
}
