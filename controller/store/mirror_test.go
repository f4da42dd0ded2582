package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/controller/logtest"
	"github.com/pillion-dev/pillion/controller/runtest"
)

var mirrorResource = schema.GroupResource{Group: "pillion.dev", Resource: "sidecartemplates"}

// mirrorCluster is an API server with SidecarTemplates, and with the policy that holds
// Pillion to mirrors.
type mirrorCluster struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
	version int
	// revision is the policy's annotation.
	revision string
	// ownerError and writeError are what those requests give, if not nil.
	ownerError, writeError error
	// asked counts the reads of the policy.
	asked    int
	watchers []func()
}

func newMirrorCluster() *mirrorCluster {
	return &mirrorCluster{objects: map[string]*unstructured.Unstructured{}, revision: "1"}
}

// change changes what there is, of which every replica hears a little later.
func (c *mirrorCluster) change(f func()) {
	c.mu.Lock()
	f()
	watchers := slices.Clone(c.watchers)
	c.mu.Unlock()
	for i, w := range watchers {
		go func() {
			time.Sleep(time.Duration(i+1) * time.Millisecond)
			w()
		}()
	}
}

// put stores an object as an API server does: it prunes a field, and fills one in.
func (c *mirrorCluster) put(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	c.version++
	o.SetResourceVersion(fmt.Sprint(c.version))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprint("uid-", c.version)))
	}
	if spec, ok := o.Object["spec"].(map[string]any); ok {
		delete(spec, "unknown")
		for field, value := range map[string]any{"injectByDefault": false, "order": int64(0)} {
			if spec[field] == nil {
				spec[field] = value
			}
		}
	}
	c.objects[o.GetName()] = o
	return o
}

func isMirror(o *unstructured.Unstructured) bool {
	return o.GetLabels()["pillion.dev/mirror"] == "true"
}

// objectsThere returns the mirrors, and the names of the other objects.
func (c *mirrorCluster) objectsThere() (mirrors []MirrorObject, others []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mirrors = []MirrorObject{}
	for _, name := range slices.Sorted(maps.Keys(c.objects)) {
		if o := c.objects[name]; isMirror(o) {
			mirrors = append(mirrors, *mirrorOf(o, "pillion.dev"))
		} else {
			others = append(others, name)
		}
	}
	return mirrors, others
}

func (c *mirrorCluster) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := []string{}
	for name, o := range c.objects {
		if isMirror(o) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *mirrorCluster) get(name string) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[name]; o != nil {
		return o.DeepCopy()
	}
	return nil
}

// replicaAPI is the API as one replica has it.
type replicaAPI struct {
	dynamic.NamespaceableResourceInterface
	*mirrorCluster
	writes atomic.Int64
	// existed counts the creations of what there was.
	existed atomic.Int64
}

func (a *replicaAPI) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return a
}

// Get returns the policy.
func (a *replicaAPI) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	policy := &unstructured.Unstructured{}
	policy.SetUID("policy")
	policy.SetAnnotations(map[string]string{MirrorRevisionKey("pillion.dev"): a.revision})
	return policy, a.ownerError
}

// write makes a request that passes the policy.
func (a *replicaAPI) write(before, after *unstructured.Unstructured, f func()) error {
	a.writes.Add(1)
	if a.writeError != nil {
		return a.writeError
	}
	if before != nil && !isMirror(before) || after != nil && !isMirror(after) {
		return apierrors.NewForbidden(mirrorResource, "", errors.New("the policy holds Pillion to mirrors"))
	}
	if after != nil {
		spec, _ := after.Object["spec"].(map[string]any)
		if spec["invalid"] != nil {
			return apierrors.NewInvalid(schema.GroupKind{}, after.GetName(), nil)
		}
	}
	f()
	return nil
}

func (a *replicaAPI) Create(_ context.Context, o *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (answer *unstructured.Unstructured, err error) {
	a.change(func() {
		if a.objects[o.GetName()] != nil {
			a.existed.Add(1)
			err = apierrors.NewAlreadyExists(mirrorResource, o.GetName())
			return
		}
		err = a.write(nil, o, func() { answer = a.put(o) })
	})
	return answer, err
}

func (a *replicaAPI) Update(_ context.Context, o *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string) (answer *unstructured.Unstructured, err error) {
	a.change(func() {
		before := a.objects[o.GetName()]
		switch {
		case before == nil:
			err = apierrors.NewNotFound(mirrorResource, o.GetName())
		case before.GetResourceVersion() != o.GetResourceVersion() || before.GetUID() != o.GetUID():
			err = apierrors.NewConflict(mirrorResource, o.GetName(), errors.New("it has changed"))
		default:
			err = a.write(before, o, func() { answer = a.put(o) })
		}
	})
	return answer, err
}

func (a *replicaAPI) Delete(_ context.Context, name string, o metav1.DeleteOptions, _ ...string) (err error) {
	a.change(func() {
		before := a.objects[name]
		switch {
		case before == nil:
			err = apierrors.NewNotFound(mirrorResource, name)
		case before.GetResourceVersion() != *o.Preconditions.ResourceVersion || before.GetUID() != *o.Preconditions.UID:
			err = apierrors.NewConflict(mirrorResource, name, errors.New("it has changed"))
		default:
			err = a.write(before, nil, func() { delete(a.objects, name) })
		}
	})
	return err
}

// mirrorReplica is a replica that serves templates.
type mirrorReplica struct {
	api     *replicaAPI
	cluster *mirrorCluster
	writer  *MirrorWriter
	log     *logtest.Log
	stop    func()

	// seeing keeps the order of what the replica sees.
	seeing   sync.Mutex
	mu       sync.Mutex
	served   []Served
	verdicts []Verdict
	ready    error
}

// serving returns templates of values, each with the text of its spec.
func serving(specs ...string) []Served {
	var all []Served
	for i := 0; i < len(specs); i += 2 {
		all = append(all, Served{
			Name: specs[i], From: FromValues, Source: "/t/" + specs[i] + ".yaml", Reason: Compiled, Message: inForce, Hash: "hash-" + specs[i],
			Manifest: []byte("metadata: {name: " + specs[i] + "}\nspec: " + specs[i+1]),
		})
	}
	return all
}

// replica runs one that serves these templates.
func (c *mirrorCluster) replica(t *testing.T, revision string, served []Served) *mirrorReplica {
	t.Helper()
	r := &mirrorReplica{api: &replicaAPI{mirrorCluster: c}, cluster: c, log: &logtest.Log{}, served: served}
	r.writer = NewMirrorWriter(MirrorOptions{
		Client: r.api, Prefix: "pillion.dev", Policy: "policy", Revision: revision, Logger: r.log.Logger(),
		Values:   map[string]any{"defaults": map[string]any{"a": map[string]any{"image": "mirror/a:2"}}},
		Ready:    func() error { r.mu.Lock(); defer r.mu.Unlock(); return r.ready },
		Verdicts: func(v []Verdict) { r.mu.Lock(); defer r.mu.Unlock(); r.verdicts = v },
	})
	c.change(func() { c.watchers = append(c.watchers, r.observe) })
	r.stop = runtest.Start(t, r.writer.Run)
	return r
}

func (r *mirrorReplica) observe() {
	r.seeing.Lock()
	defer r.seeing.Unlock()
	r.mu.Lock()
	m := Mirrors{Served: r.served, Taken: map[string]bool{}}
	r.mu.Unlock()
	var others []string
	m.Objects, others = r.cluster.objectsThere()
	for _, name := range others {
		m.Taken[name] = true
	}
	r.writer.Observe(m)
}

// serve changes what it serves.
func (r *mirrorReplica) serve(served []Served) {
	r.mu.Lock()
	r.served = served
	r.mu.Unlock()
	r.observe()
}

func (r *mirrorReplica) verdict(name string) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.verdicts {
		if v.Object.Name == name {
			return v
		}
	}
	return Verdict{}
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

const (
	specA = "{parameters: [{name: image, type: image, default: 'a:1'}], inject: {}}"
	specB = "{order: 5, injectByDefault: true, inject: {metadata: {labels: {b: c}}}}"
)

func TestEveryServedTemplateHasOneMirrorWhateverTheNumberOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMirrorCluster()
		var replicas []*mirrorReplica
		for range 5 {
			replicas = append(replicas, c.replica(t, "1", serving("a", specA, "b", specB)))
		}
		after(time.Hour)
		if got := c.names(); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("there are %v", got)
		}
		writes := int64(0)
		for _, r := range replicas {
			writes += r.api.writes.Load()
			if v := r.verdict("a"); v.Reason != Compiled || v.From != FromValues || v.Hash != "hash-a" {
				t.Errorf("the verdict is %+v", v)
			}
		}
		if writes != 2 {
			t.Errorf("%d writes of two mirrors", writes)
		}
		if c.asked > 20 {
			t.Errorf("the policy was read %d times in an hour in which nothing changed", c.asked)
		}
		a := c.get("a")
		if image, _, _ := unstructured.NestedSlice(a.Object, "spec", "parameters"); image[0].(map[string]any)["default"] != "mirror/a:2" {
			t.Errorf("the spec is %v, want the installer's default in it", a.Object["spec"])
		}
		owners := a.GetOwnerReferences()
		if len(owners) != 1 || owners[0].Kind != "ValidatingAdmissionPolicy" || owners[0].UID != "policy" || owners[0].BlockOwnerDeletion != nil || owners[0].Controller != nil {
			t.Errorf("the owners are %+v", owners)
		}
		if text := a.GetAnnotations()["pillion.dev/source"]; !strings.Contains(text, "templates.a") || !strings.Contains(text, "/t/a.yaml") {
			t.Errorf("its source is %q", text)
		}
	})
}

func TestADeletedOrChangedMirrorIsBackWithinTwoSecondsAndNobodyIsFought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMirrorCluster()
		r := c.replica(t, "1", serving("a", specA))
		after(time.Hour)
		want := mirrorOf(c.get("a"), "pillion.dev").Digest
		is := func() string {
			if o := c.get("a"); o != nil {
				return mirrorOf(o, "pillion.dev").Digest
			}
			return ""
		}
		for what, harm := range map[string]func(){
			"deleted": func() { delete(c.objects, "a") },
			"changed": func() {
				o := c.objects["a"].DeepCopy()
				o.Object["spec"] = map[string]any{"inject": map[string]any{"spec": map[string]any{}}}
				c.put(o)
			},
			"without its owner": func() {
				o := c.objects["a"].DeepCopy()
				o.SetOwnerReferences(nil)
				c.put(o)
			},
			"said to be from elsewhere": func() {
				o := c.objects["a"].DeepCopy()
				o.SetAnnotations(nil)
				c.put(o)
			},
		} {
			c.change(harm)
			if after(100 * time.Microsecond); is() == want {
				t.Fatalf("%s: it is as before at once", what)
			}
			if after(2 * time.Second); is() != want {
				t.Errorf("%s: two seconds later it is %v", what, c.get("a"))
			}
			after(time.Hour)
		}
		before := r.api.writes.Load()
		for range 3600 {
			c.change(func() { delete(c.objects, "a") })
			after(time.Second)
		}
		if n := r.api.writes.Load() - before; n < 60 || n > 70 {
			t.Errorf("%d writes in an hour in which somebody deletes it every second", n)
		}
		after(lastAgain + time.Second)
		if is() != want {
			t.Error("when nobody deletes it any more it is not back")
		}
	})
}

// An upgrade: replicas of two versions run, and serve different templates.
func TestOnlyTheVersionThatTheReleaseHasWritesMirrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMirrorCluster()
		old := []*mirrorReplica{c.replica(t, "1", serving("a", specA, "dropped", specB)), c.replica(t, "1", serving("a", specA, "dropped", specB))}
		after(time.Minute)
		writes := func() (n int64) {
			for _, r := range old {
				n += r.api.writes.Load()
			}
			return n
		}
		before := writes()
		early := c.replica(t, "2", serving("a", specB, "new", specB)) // before the policy is there
		after(10 * time.Second)
		if n := early.api.writes.Load(); n != 0 || !slices.Equal(c.names(), []string{"a", "dropped"}) {
			t.Errorf("before the policy says so there are %d writes of the new version, and %v", n, c.names())
		}
		c.change(func() { c.revision = "2" })
		after(lastHeld + goneFor + 2*time.Second)
		if got := c.names(); !slices.Equal(got, []string{"a", "new"}) {
			t.Errorf("the new version's mirrors are %v", got)
		}
		after(time.Hour)
		if n := writes() - before; n != 0 || early.api.writes.Load() != 3 {
			t.Errorf("%d writes of the old version, %d of the new one", n, early.api.writes.Load())
		}
		if c.get("a").Object["spec"].(map[string]any)["order"] != int64(5) {
			t.Errorf("the mirror is %v", c.get("a").Object)
		}
		if v := old[0].verdict("a"); v.Reason != "" {
			t.Errorf("the old version says of the new one's mirror %+v", v)
		}
		c.change(func() { c.revision = "1" }) // rolled back
		early.stop()
		after(lastHeld + goneFor + 2*time.Second)
		if got := c.names(); !slices.Equal(got, []string{"a", "dropped"}) {
			t.Errorf("after the rollback there are %v", got)
		}
	})
}

// A ConfigMap reaches the nodes at different times.
func TestReplicasThatDisagreeForAWhileWriteSeldomAndSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMirrorCluster()
		one := c.replica(t, "1", serving("a", specA, "b", specB))
		two := c.replica(t, "1", serving("a", specB))
		after(time.Hour)
		if n := one.api.writes.Load() + two.api.writes.Load(); n > 4*(60+10) {
			t.Errorf("%d writes in an hour", n)
		}
		one.serve(serving("a", specB))
		after(2*lastAgain + goneFor)
		settled := one.api.writes.Load() + two.api.writes.Load()
		after(time.Hour)
		if n := one.api.writes.Load() + two.api.writes.Load() - settled; n != 0 || !slices.Equal(c.names(), []string{"a"}) || c.get("a").Object["spec"].(map[string]any)["order"] != int64(5) {
			t.Errorf("%d writes more, and there are %v", n, c.names())
		}
	})
}

func TestTheMirrorOfATemplateThatIsNoLongerServedVanishesOnceTheReplicaIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMirrorCluster()
		r := c.replica(t, "1", serving("a", specA, "b", specB))
		after(time.Minute)
		r.serve(serving("a", specA))
		after(goneFor - 10*time.Millisecond)
		r.serve(serving("a", specA, "b", specB))
		after(time.Minute)
		r.mu.Lock()
		r.ready = errors.New("templates are missing")
		r.mu.Unlock()
		r.serve(serving("a", specA))
		after(time.Hour)
		if got := c.names(); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("there are %v, want both: the template was back in time, and then the replica was not ready", got)
		}
		r.mu.Lock()
		r.ready = nil
		r.mu.Unlock()
		after(goneFor + 2*time.Second)
		if got := c.names(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("there are %v", got)
		}
	})
}

func TestATemplateWhoseManifestIsGoneOrCannotBeReadKeepsItsMirrorAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMirrorCluster()
		r := c.replica(t, "1", serving("a", specA))
		after(time.Minute)
		before, writes := c.get("a").GetResourceVersion(), r.api.writes.Load()
		r.serve([]Served{
			{Name: "a", From: FromValues, Reason: SourceGone, Message: "gone, and named", Hash: "old"},
			{Name: "b", From: FromValues, Reason: SourceGone, Message: "gone, and never mirrored"},
		})
		after(time.Hour)
		if v := r.verdict("a"); v.Reason != SourceGone || v.Hash != "old" || v.status().Conditions[0].Status != "False" {
			t.Errorf("the verdict is %+v", v)
		}
		if n := r.api.writes.Load() - writes; n != 0 || c.get("a").GetResourceVersion() != before || c.get("b") != nil {
			t.Errorf("%d writes, and there are %v", n, c.names())
		}
	})
}

func TestWhatIsMissingIsNamedOnceAndTriedAgain(t *testing.T) {
	for what, test := range map[string]struct {
		set  func(*mirrorCluster, error)
		err  error
		want string
	}{
		"the right to write":    {func(c *mirrorCluster, err error) { c.writeError = err }, apierrors.NewForbidden(mirrorResource, "a", errors.New("no")), "missing permission: the verb create on sidecartemplates.pillion.dev"},
		"the right to read":     {func(c *mirrorCluster, err error) { c.ownerError = err }, apierrors.NewForbidden(mirrorResource, "policy", errors.New("no")), "missing permission: the verb get on validatingadmissionpolicies"},
		"the policy":            {func(c *mirrorCluster, err error) { c.ownerError = err }, apierrors.NewNotFound(mirrorResource, "policy"), "the ValidatingAdmissionPolicy policy is missing"},
		"an answer":             {func(c *mirrorCluster, err error) { c.writeError = err }, errors.New("connection refused"), "making the mirror of template a: connection refused"},
		"an answer of a policy": {func(c *mirrorCluster, err error) { c.ownerError = err }, errors.New("connection refused"), "reading the ValidatingAdmissionPolicy policy: connection refused"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newMirrorCluster()
				test.set(c, test.err)
				r := c.replica(t, "1", serving("a", specA))
				after(time.Hour)
				if n := r.log.Count(test.want); n != 1 {
					t.Errorf("the log says it %d times:\n%s", n, r.log)
				}
				if n := c.asked; n > 150 || n < 50 {
					t.Errorf("%d tries in an hour", n)
				}
				c.change(func() { test.set(c, nil) })
				after(2 * lastAgain)
				if got := c.names(); !slices.Equal(got, []string{"a"}) || r.log.Count("templates are mirrored again") != 1 {
					t.Errorf("afterwards there are %v; the log says\n%s", got, r.log)
				}
			})
		})
	}
}

func TestASpecThatTheAPIServerRefusesOrPrunesIsShownAsFarAsItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMirrorCluster()
		served := serving("pruned", "{unknown: 1, inject: {metadata: {}}}", "refused", "{invalid: 1, description: "+strings.Repeat("ä", 2000)+", inject: {spec: {}}}", "nothing", "7")
		for i := range served {
			served[i].Reason, served[i].Message = CompileFailed, "line 2: is wrong"
		}
		r := c.replica(t, "1", served)
		after(time.Hour)
		if got := c.names(); !slices.Equal(got, []string{"nothing", "pruned", "refused"}) {
			t.Fatalf("there are %v\n%s", got, r.log)
		}
		for name, want := range map[string]string{"pruned": "map[metadata:map[]]", "refused": "map[]", "nothing": "map[]"} {
			if got := fmt.Sprint(c.get(name).Object["spec"].(map[string]any)["inject"]); got != want {
				t.Errorf("%s: inject is %s, want %s", name, got, want)
			}
			if v := r.verdict(name); v.Reason != CompileFailed || v.Message != "line 2: is wrong" {
				t.Errorf("%s: the verdict is %+v", name, v)
			}
		}
		if description, _, _ := unstructured.NestedString(c.get("refused").Object, "spec", "description"); description != strings.Repeat("ä", 1024) {
			t.Errorf("the description has %d bytes", len(description))
		}
		if n := r.api.writes.Load(); n != 4 {
			t.Errorf("%d writes, want one of each, and one more of the one that was refused", n)
		}
		// Another replica does not know what the API server makes of it, and learns it.
		again := c.replica(t, "1", served)
		after(time.Hour)
		if n := again.api.writes.Load(); n > 2 || again.verdict("pruned").Reason != CompileFailed || again.verdict("refused").Reason != CompileFailed {
			t.Errorf("the second replica wrote %d times, its verdicts are %+v", n, again.verdicts)
		}
		served = serving("refused", "{description: whole, inject: {spec: {}}}")
		r.serve(served)
		again.serve(served)
		after(time.Minute)
		if got := fmt.Sprint(c.get("refused").Object["spec"]); !strings.Contains(got, "description:whole") || !slices.Equal(c.names(), []string{"refused"}) {
			t.Errorf("after it was mended the spec is %s, and there are %v", got, c.names())
		}
	})
}

func TestWhatIsKnownOfAContentGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMirrorCluster()
		r := c.replica(t, "1", nil)
		for i := range 50 {
			r.serve(serving("pruned", fmt.Sprintf("{unknown: 1, order: %d, inject: {metadata: {}}}", i)))
			after(2 * time.Minute)
		}
		w := r.writer
		w.mu.Lock()
		defer w.mu.Unlock()
		if order := c.get("pruned").Object["spec"].(map[string]any)["order"]; fmt.Sprint(order) != "49" || r.api.writes.Load() != 50 {
			t.Errorf("its order is %v after %d writes", order, r.api.writes.Load())
		}
		if n := len(w.wanted) + len(w.kept) + len(w.refused) + len(w.tasks); n > 3 {
			t.Errorf("of one mirror, %d contents, %d that the API server keeps otherwise, %d that it refused and %d tasks are known", len(w.wanted), len(w.kept), len(w.refused), len(w.tasks))
		}
	})
}

// Whatever happens to objects and templates: in the end there is a mirror of each template
// whose name no real template has, and no other one, and no real template was touched.
func TestPropertyMirrorsSettle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"serve", "real", "delete", "unlabel", "label", "revision", "wait"}), 1, 12).Draw(rt, "steps")
		seeds := rapid.SliceOfN(rapid.IntRange(0, 7), 24, 24).Draw(rt, "seeds")
		synctest.Test(t, func(t *testing.T) {
			c := newMirrorCluster()
			served := serving("a", specA, "b", specB)
			replicas := []*mirrorReplica{c.replica(t, "1", served), c.replica(t, "1", served)}
			touched := map[string]bool{} // real templates that a test made mirrors of
			for i, step := range steps {
				seed := seeds[2*i]
				name := []string{"a", "b", "c"}[seed%3]
				switch step {
				case "serve":
					served = nil
					for bit, n := range []string{"a", "b", "c"} {
						if seed>>bit&1 == 1 {
							served = append(served, serving(n, []string{specA, specB}[seeds[2*i+1]%2])...)
						}
					}
					for _, r := range replicas {
						r.serve(served)
					}
				case "real":
					c.change(func() {
						c.put(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"real": true}}})
					})
					touched[name] = true
				case "delete":
					c.change(func() { delete(c.objects, name); delete(touched, name) })
				case "unlabel", "label":
					c.change(func() {
						if o := c.objects[name]; o != nil {
							o = o.DeepCopy()
							o.SetLabels(map[string]string{"pillion.dev/mirror": map[string]string{"label": "true", "unlabel": "no"}[step]})
							c.put(o)
							touched[name] = step == "unlabel"
						}
					})
				case "revision":
					c.change(func() { c.revision = fmt.Sprint(seed % 2) })
				}
				after(time.Duration(seeds[2*i+1]) * 300 * time.Millisecond)
			}
			c.change(func() { c.revision = "1" })
			after(4 * lastAgain)
			var want, real []string
			for name, is := range touched {
				if is {
					real = append(real, name)
				}
			}
			for _, s := range served {
				if !slices.Contains(real, s.Name) {
					want = append(want, s.Name)
				}
			}
			if got := c.names(); !slices.Equal(got, append([]string{}, want...)) {
				t.Errorf("mirrors of %v, want of %v; real ones are %v", got, want, real)
			}
			for _, name := range real {
				if c.get(name) == nil || isMirror(c.get(name)) {
					t.Errorf("the real template %s is %v", name, c.get(name))
				}
			}
			requests := func() (n int64) {
				for _, r := range replicas {
					n += r.api.writes.Load() + r.api.existed.Load()
				}
				return n
			}
			before := requests()
			after(time.Hour)
			if n := requests() - before; n != 0 {
				t.Errorf("%d writes though all was settled", n)
			}
		})
	})
}
