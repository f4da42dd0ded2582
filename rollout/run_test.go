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
	uncalled, unready bool
	// unpullable is an image that a container with it waits for, with the reason waiting.
	unpullable, waiting string
	lacks               map[string]bool // rights, as verb resource
	refuse              error           // of patches of pods

	made     int
	touched  int
	writes   []string
	patching func()
}

type owner struct {
	rollout.Owner
	replicas   int
	generation int
	template   string
	paused     bool
	strategy   string // of updates
	reason     string // of the condition Progressing
	old        int    // pods of older ReplicaSets that stay
}

func newCluster(t *testing.T, before, now shipper) *cluster {
	c := &cluster{t: t, pipeline: injector.NewPipeline(injector.Config{}), set: setOf(t, before.manifest()), owners: map[string]*owner{}, lacks: map[string]bool{},
		ns: templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "shipper"}, Labels: map[string]string{"pillion.dev/injection": "enabled"}}}
	c.own("Deployment", "web", 4)
	c.own("StatefulSet", "db", 2)
	c.settle()
	c.set = setOf(t, now.manifest())
	return c
}

func (c *cluster) own(kind, name string, replicas int) {
	c.owners[name] = &owner{Owner: rollout.Owner{Namespace: "shop", Kind: kind, Name: name}, replicas: replicas,
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
		if len(own) < o.replicas {
			c.create(o)
		}
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
	c.step()
	own := c.owners[o.Name]
	updated := 0
	for _, p := range c.pods {
		if meta(p)["owner"] == o.Name && meta(p)["of"] == own.generation && meta(p)["deletionTimestamp"] == nil {
			updated++
		}
	}
	n := func(i int) json.Number { return json.Number(fmt.Sprint(i)) }
	return map[string]any{"spec": map[string]any{"replicas": n(own.replicas), "paused": own.paused, "updateStrategy": map[string]any{"type": own.strategy}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Progressing", "reason": own.reason}}, "replicas": n(own.replicas + own.old), "updatedReplicas": n(updated), "availableReplicas": n(c.ready(o.Name)), "readyReplicas": n(c.ready(o.Name))}}, nil
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
	return rights.Explain(apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "", says))
}

// roll runs a rollout and returns what it said.
func (c *cluster) roll(mode rollout.Mode, change ...func(*rollout.Options)) (string, error) {
	return c.rollIn(context.Background(), mode, change...)
}

func (c *cluster) rollIn(ctx context.Context, mode rollout.Mode, change ...func(*rollout.Options)) (string, error) {
	var out bytes.Buffer
	o := rollout.Options{Cluster: c, Comparer: drift.Comparer{Pipeline: c.pipeline}, Templates: c.set, Mode: mode, Timeout: time.Minute, Poll: time.Second, Out: &out}
	for _, f := range change {
		f(&o)
	}
	err := rollout.Run(ctx, o)
	return out.String(), err
}

func dryRun(o *rollout.Options) { o.DryRun = true }

var one, two = shipper{image: "ship:1", level: "info"}, shipper{image: "ship:2", level: "info"}

// onCluster runs a test in which time passes at once.
func onCluster(t *testing.T, before, now shipper, f func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) { f(t, newCluster(t, before, now)) })
}

func TestEveryModeBringsAllPodsUpToDateAndASecondRunDoesNothing(t *testing.T) {
	for mode, writes := range map[rollout.Mode][]string{
		rollout.Restart:     {"restart web", "restart db"},
		rollout.InPlaceMode: {"patch web-2", "patch web-4", "patch web-5", "patch web-6", "patch db-1", "patch db-3"},
	} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			if out, err := c.roll(mode, dryRun); err != nil || len(c.writes) > 0 || !strings.Contains(out, "deployment/web in namespace shop: ") || !strings.Contains(out, "(pods: 4; outdated: shipper)") || !strings.Contains(out, "nothing was touched") {
				t.Errorf("%s: a dry run writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
			out, err := c.roll(mode)
			if err != nil || !slices.Equal(c.writes, writes) || !strings.Contains(out, "done: 6 of 6 pods up to date") {
				t.Errorf("%s writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
			c.writes = nil
			if out, err := c.roll(mode); err != nil || len(c.writes) > 0 || !strings.Contains(out, "6 of 6 pods up to date\nnothing to do") {
				t.Errorf("%s once more writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
		})
	}
}

func TestARolloutGoesOnWhereItStopped(t *testing.T) {
	for why, change := range map[string]func(c *cluster){
		"not done within --timeout=1m0s: ": func(c *cluster) { c.unready = true },
		"it makes no progress: ":           func(c *cluster) { c.owners["web"].reason = "ProgressDeadlineExceeded" },
	} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			change(c)
			out, err := c.roll(rollout.Restart)
			if err == nil || !strings.Contains(err.Error(), "stopped while restarting deployment/web in namespace shop: "+why) || !slices.Equal(c.writes, []string{"restart web"}) {
				t.Fatalf("it writes %v and says (%v)\n%s\nwant %q", c.writes, err, out, why)
			}
			c.unready, c.owners["web"].reason = false, ""
			if out, err := c.roll(rollout.Restart); err != nil || !strings.Contains(out, "6 of 6 pods up to date") {
				t.Errorf("afterwards it writes %v and says (%v)\n%s", c.writes, err, out)
			}
		})
	}
}

// A workload that cannot be brought up to date keeps no other from it.
func TestAWorkloadThatCannotBeBroughtUpToDateIsListedAndLeftAlone(t *testing.T) {
	const web = "not touched: deployment/web in namespace shop (pods: 4): "
	for name, test := range map[string]struct {
		change func(*cluster)
		mode   rollout.Mode
		says   []string
		// none: the other workload is not reached, either.
		none bool
	}{
		"a paused Deployment":         {func(c *cluster) { c.owners["web"].paused = true }, rollout.Restart, []string{web + "outdated: shipper; it is paused: kubectl -n shop rollout resume deployment/web"}, false},
		"pods of an older ReplicaSet": {func(c *cluster) { c.owners["web"].old = 1 }, rollout.Restart, []string{web + "outdated: shipper; its pods are being replaced already, and 1 of older ReplicaSets are still there: kubectl -n shop rollout status deployment/web"}, false},
		"the strategy OnDelete":       {func(c *cluster) { c.owners["web"].strategy = "OnDelete" }, rollout.Restart, []string{web + "outdated: shipper; its update strategy is OnDelete"}, false},
		"a missing right":             {func(c *cluster) { c.lacks["patch deployments"] = true }, rollout.Restart, []string{web + "outdated: shipper; you lack the right to patch deployments.apps in namespace shop. An admin can grant it: kubectl -n shop create role"}, false},
		"new pods that would be refused": {func(c *cluster) { c.ns.Annotations["pillion.dev/inject"] = "shipper,typo" }, "",
			[]string{web + "a new pod would be refused: ", "statefulset/db in namespace shop (pods: 2): a new pod would be refused: "}, true},
		"API servers that do not call Pillion":    {func(c *cluster) { c.uncalled = true }, rollout.Restart, []string{web + "outdated: shipper; a new pod would not be up to date: it comes without shipper (by dry run"}, true},
		"no right to change pods":                 {func(c *cluster) { c.lacks["patch pods"] = true }, rollout.InPlaceMode, []string{web + "outdated: shipper; you lack the right to patch pods in namespace shop"}, true},
		"somebody who refuses the change of pods": {func(c *cluster) { c.refuse = errors.New("an image that is not allowed") }, rollout.InPlaceMode, []string{web + "outdated: shipper; an image that is not allowed", "--restart brings pods up to date"}, true},
	} {
		for _, mode := range []rollout.Mode{rollout.Restart, rollout.InPlaceMode} {
			if test.mode != "" && mode != test.mode {
				continue
			}
			onCluster(t, one, two, func(t *testing.T, c *cluster) {
				test.change(c)
				if out, err := c.roll(mode, dryRun); !errors.Is(err, rollout.ErrIncomplete) || len(c.writes) > 0 || !strings.Contains(out, test.says[0]) {
					t.Errorf("%s, by dry run: it writes %v and says (%v)\n%s", name, c.writes, err, out)
				}
				out, err := c.roll(mode)
				want := []string{"restart db"}
				if test.none {
					want = nil
				}
				if !errors.Is(err, rollout.ErrIncomplete) || !slices.Equal(c.writes, want) {
					t.Errorf("%s: it writes %v and says (%v)\n%s", name, c.writes, err, out)
				}
				for _, says := range test.says {
					if !strings.Contains(out, says) {
						t.Errorf("%s: it says\n%s\nwant %q", name, out, says)
					}
				}
			})
		}
	}
}

// Where new pods cannot be tried by dry run, those of the first workload tell.
func TestItStopsAtANewPodThatIsNotUpToDate(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		c.lacks["create pods"], c.uncalled = true, true
		out, err := c.roll(rollout.Restart)
		if err == nil || len(c.writes) != 1 || !strings.Contains(err.Error(), "the new pod shop/web-7 is not up to date (missing: shipper)") || strings.Count(out, "are not tried by dry run") != 1 {
			t.Errorf("it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
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
	for waiting, within := range map[string]string{"ImagePullBackOff": "not done within --timeout=1m0s: sidecar shipper of pod shop/web-2 does not run with the image ship:2: ImagePullBackOff",
		"InvalidImageName": "sidecar shipper of pod shop/web-2 does not start with the image ship:2: InvalidImageName: no such image"} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			c.unpullable, c.waiting = "ship:2", waiting
			out, err := c.roll(rollout.InPlaceMode)
			if err == nil || len(c.writes) != 1 || !strings.Contains(err.Error(), "stopped while changing pod shop/web-2: "+within) {
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
	for _, mode := range []rollout.Mode{rollout.Restart, rollout.InPlaceMode} {
		onCluster(t, one, two, func(t *testing.T, c *cluster) {
			c.unready, c.unpullable = true, "ship:2"
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, stop)
			out, err := c.rollIn(ctx, mode)
			if err == nil || len(c.writes) != 1 || !strings.Contains(err.Error(), ": context canceled: ") || !strings.Contains(err.Error(), ". The same command continues from here") {
				t.Errorf("%s writes %v and says (%v)\n%s", mode, c.writes, err, out)
			}
		})
	}
}

func TestATemplateLimitsWhatIsRolled(t *testing.T) {
	onCluster(t, one, two, func(t *testing.T, c *cluster) {
		if out, err := c.roll(rollout.Restart, func(o *rollout.Options) { o.Template = "another" }); err != nil || len(c.writes) > 0 {
			t.Errorf("for another template it writes %v and says (%v)\n%s", c.writes, err, out)
		}
	})
}
