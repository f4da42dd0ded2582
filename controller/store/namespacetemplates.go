package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/reconcile"
	"github.com/pillion-dev/pillion/templates"
)

// Tenants may write the templates of their namespaces. These constants bound the cost of one tenant, or of all.
const (
	// page is the number of objects in a page of a list: an object may have more than a megabyte.
	page = 5
	// compilesPerSecond bounds how often a namespace's templates are compiled, after compilesAtOnce.
	compilesPerSecond = 0.5
	compilesAtOnce    = 10
	workers           = 2
)

const noRoom = "the templates of all namespaces take more memory than Pillion has for them, and those of this namespace are among the largest; write fewer expressions, or have the cluster's admin raise Pillion's memory limit"

// NamespacedOptions are what [NewNamespaced] needs. All fields are required.
type NamespacedOptions struct {
	// Client needs the verbs list and watch on NamespacedSidecarTemplates, and get on their CRD.
	Client dynamic.Interface
	// Compile has the options of the compiler. Its values are ignored.
	Compile templates.Options
	// Budget bounds the memory of the templates of all namespaces, in bytes.
	Budget int64
	Logger *slog.Logger
}

// Namespaced compiles the NamespacedSidecarTemplates. [NewNamespaced] returns one.
type Namespaced struct {
	options NamespacedOptions
	objects *follower
	loop    *reconcile.Loop[string]
	// changed is called with a namespace whose templates in force changed, and onVerdicts with the verdicts on them.
	changed    []func(namespace string)
	onVerdicts func(namespace string, verdicts []Verdict)
	cluster    func() *templates.Set
	// all has the templates in force, by namespace.
	all   atomic.Pointer[map[string][]templates.Entry]
	state namespacedState
}

// namespacedState is the state that the lock guards.
type namespacedState struct {
	sync.Mutex
	namespaces map[string]*namespaceState
	budget     budget
	// uncompiled has the namespaces that have not been compiled yet; nil before the list.
	uncompiled map[string]bool
	failure    string
}

// namespaceState has the templates of one namespace.
type namespaceState struct {
	name     string
	objects  map[string]*Object
	compiled map[string]*compiled
	cost     int64
	// overBudget means that the templates of all namespaces cost too much, and that these are not in force.
	overBudget bool
	limiter    *rate.Limiter
	// queued means that the loop has the namespace.
	queued bool
}

// NewNamespaced returns a store that is empty until [Namespaced.Run] runs.
func NewNamespaced(o NamespacedOptions) *Namespaced {
	n := &Namespaced{
		options: o, loop: reconcile.NewLoop[string](time.Second, 30*time.Second),
		state:      namespacedState{namespaces: map[string]*namespaceState{}, budget: budget{limit: o.Budget}},
		onVerdicts: func(string, []Verdict) {}, cluster: func() *templates.Set { return templates.NewSet(nil) },
	}
	n.options.Compile.Values = nil
	n.all.Store(&map[string][]templates.Entry{})
	n.objects = newFollower(o.Client, NamespacedResource, "templates of namespaces", o.Logger, followerOptions{changed: n.objectChanged, filled: n.listed, page: page})
	return n
}

// OnChange calls f with each namespace whose templates in force changed. f must return soon. Call it before Run.
func (n *Namespaced) OnChange(f func(namespace string)) { n.changed = append(n.changed, f) }

// OnVerdicts calls f with the verdicts on the objects of a namespace. f must return soon. Call it before Run.
func (n *Namespaced) OnVerdicts(f func(namespace string, verdicts []Verdict)) { n.onVerdicts = f }

// Ready returns nil once all objects have been listed and compiled. Before that, the error says why they are not.
func (n *Namespaced) Ready() error {
	n.state.Lock()
	defer n.state.Unlock()
	if n.state.uncompiled == nil {
		return n.objects.listError()
	}
	if len(n.state.uncompiled) > 0 {
		return fmt.Errorf("templates of %d namespaces are not compiled yet", len(n.state.uncompiled))
	}
	return nil
}

// State returns how current the templates are.
func (n *Namespaced) State() follow.State { return n.objects.State() }

// Run follows the templates until ctx ends, which is no error.
func (n *Namespaced) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { n.objects.Run(ctx) })
	n.loop.Run(ctx, workers, n.reconcile)
	return nil
}

// listed queues all namespaces when the list is complete.
func (n *Namespaced) listed() {
	n.state.Lock()
	defer n.state.Unlock()
	n.state.uncompiled = map[string]bool{}
	for name := range n.state.namespaces {
		n.state.uncompiled[name] = true
		n.loop.Add(name)
	}
}

// byAge returns the objects, the oldest first. The oldest ones are in force if a namespace has too many.
func (s *namespaceState) byAge() []*Object {
	return slices.SortedFunc(maps.Values(s.objects), func(a, b *Object) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// objectChanged queues the namespace of an object for the time at which its limiter allows it.
func (n *Namespaced) objectChanged(key string) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return
	}
	obj, there := n.objects.Get(key)
	n.state.Lock()
	defer n.state.Unlock()
	s := n.state.namespaces[namespace]
	if s == nil {
		s = &namespaceState{name: namespace, objects: map[string]*Object{}, compiled: map[string]*compiled{}, limiter: rate.NewLimiter(compilesPerSecond, compilesAtOnce)}
		n.state.namespaces[namespace] = s
	}
	if o, ok := obj.(*Object); there && ok {
		s.objects[name] = o
	} else {
		delete(s.objects, name)
	}
	if !s.queued {
		s.queued = true
		n.loop.AddAfter(namespace, s.limiter.Reserve().Delay())
	}
}

// clusterChanged queues the namespaces with a template that the cluster's set begins or ceases to shadow.
func (n *Namespaced) clusterChanged(before, set *templates.Set) {
	n.state.Lock()
	defer n.state.Unlock()
	for namespace, s := range n.state.namespaces {
		for name := range s.compiled {
			_, was := before.Find(name)
			if _, shadowed := set.Find(name); was != shadowed {
				n.loop.Add(namespace)
				break
			}
		}
	}
}

// reconcile compiles the changed objects of a namespace.
func (n *Namespaced) reconcile(ctx context.Context, namespace string) (time.Duration, error) {
	n.state.Lock()
	s := n.state.namespaces[namespace]
	if s == nil {
		n.state.Unlock()
		return reconcile.Never, nil
	}
	s.queued = false
	objects, before := s.byAge(), s.compiled
	for _, other := range n.state.budget.set(s, costOf(objects)) {
		n.loop.Add(other)
	}
	out := s.overBudget
	n.state.Unlock()

	now := compileNamespace(objects, before, out, n.options.Compile)
	err := addLost(ctx, n.objects, now, before)
	n.fail(ctx, err)
	if err != nil {
		return reconcile.Never, err
	}
	n.state.Lock()
	defer n.state.Unlock()
	s.compiled = now
	n.publish(namespace, s)
	delete(n.state.uncompiled, namespace)
	if len(s.objects)+len(now) == 0 && s.limiter.Tokens() >= compilesAtOnce-1 { // else its bounds begin anew
		delete(n.state.namespaces, namespace)
		n.state.budget.remove(s)
	}
	return reconcile.Never, nil
}

// costOf returns the cost of the objects that may be in force.
func costOf(oldest []*Object) (sum int64) {
	for _, o := range oldest[:min(len(oldest), templates.MaxInNamespace)] {
		sum += o.Cost
	}
	return sum
}

// compileNamespace compiles the objects of a namespace, which are sorted by age. It returns them by name. out means that
// they are over the budget.
func compileNamespace(oldest []*Object, before map[string]*compiled, out bool, options templates.Options) map[string]*compiled {
	now := make(map[string]*compiled, len(oldest))
	for i, o := range oldest {
		switch {
		case i >= templates.MaxInNamespace:
			now[o.Name] = &compiled{Object: o, reason: TooMany, err: fmt.Errorf("the namespace already has %d older templates, which is the most that can be in force; delete another one and then change this one, or delete this one", templates.MaxInNamespace)}
		case o.Excess != nil:
			now[o.Name] = &compiled{Object: o, reason: TooLarge, err: templates.OutOfForce(o.Manifest, o.Excess.Error(), options)}
		case out:
			now[o.Name] = &compiled{Object: o, reason: TooLarge, err: templates.OutOfForce(o.Manifest, noRoom, options)}
		default:
			was := before[o.Name]
			if was != nil && was.reason == TooLarge {
				was = nil
			}
			now[o.Name] = compileObject(o, was, options)
		}
	}
	return now
}

// budget divides a bound of memory among namespaces, the cheapest first, so that an expensive namespace cannot displace
// a cheaper one.
type budget struct {
	limit int64
	// byCost has the namespaces, the cheapest first.
	byCost []*namespaceState
}

// set sets the cost of a namespace. It returns the names of other namespaces whose overBudget changed.
func (b *budget) set(s *namespaceState, cost int64) []string {
	b.remove(s)
	s.cost = cost
	i, _ := slices.BinarySearchFunc(b.byCost, s, compareCosts)
	b.byCost = slices.Insert(b.byCost, i, s)
	var sum int64
	var changed []string
	for _, other := range b.byCost {
		sum += other.cost
		if out := sum > b.limit; out != other.overBudget {
			if other.overBudget = out; other != s {
				changed = append(changed, other.name)
			}
		}
	}
	return changed
}

func (b *budget) remove(s *namespaceState) {
	if i, there := slices.BinarySearchFunc(b.byCost, s, compareCosts); there {
		b.byCost = slices.Delete(b.byCost, i, i+1)
	}
}

func compareCosts(a, b *namespaceState) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.name, b.name))
}

// publish puts a namespace's templates in force, and reports the verdicts on its objects.
func (n *Namespaced) publish(namespace string, s *namespaceState) {
	set, before, at := n.cluster(), (*n.all.Load())[namespace], time.Now()
	var entries []templates.Entry
	var verdicts []Verdict
	for _, name := range slices.Sorted(maps.Keys(s.compiled)) {
		c := s.compiled[name]
		if c.reason != TooMany {
			entries = append(entries, c.entry(find(before, name), at))
		}
		if c.lost {
			continue
		}
		v := c.verdict()
		if _, shadowed := set.Find(name); shadowed && c.reason != TooMany {
			v = Verdict{Object: *c.Object, Reason: Shadowed, Message: fmt.Sprintf("A template of the cluster has the name %s, and counts; rename this object.", name)}
		}
		verdicts = append(verdicts, v)
	}
	n.onVerdicts(namespace, verdicts)
	if slices.EqualFunc(before, entries, sameEntry) {
		return
	}
	all := maps.Clone(*n.all.Load())
	delete(all, namespace)
	if len(entries) > 0 {
		all[namespace] = entries
	}
	n.all.Store(&all)
	for _, f := range n.changed {
		f(namespace)
	}
}

func find(entries []templates.Entry, name string) templates.Entry {
	for _, e := range entries {
		if e.Name == name {
			return e
		}
	}
	return templates.Entry{}
}

// fail logs why a namespace could not be reconciled, once.
func (n *Namespaced) fail(ctx context.Context, err error) {
	n.state.Lock()
	defer n.state.Unlock()
	if text := errorText(err); ctx.Err() == nil && text != n.state.failure {
		if n.state.failure = text; text != "" {
			n.options.Logger.Error("templates of a namespace cannot be read; those that were last read stay in force", "error", text)
		}
	}
}

// Count returns the number of a namespace's objects.
func (n *Namespaced) Count(namespace string) int {
	n.state.Lock()
	defer n.state.Unlock()
	if s := n.state.namespaces[namespace]; s != nil {
		return len(s.objects)
	}
	return 0
}

// Reasons counts the objects by the reason of their condition Ready.
func (n *Namespaced) Reasons() map[string]int {
	n.state.Lock()
	defer n.state.Unlock()
	set := n.cluster()
	reasons := map[string]int{Compiled: 0, CompileFailed: 0, Shadowed: 0, TooMany: 0, TooLarge: 0}
	for _, s := range n.state.namespaces {
		for name, c := range s.compiled {
			_, shadowed := set.Find(name)
			switch {
			case c.lost: // the object does not exist
			case shadowed && c.reason != TooMany:
				reasons[Shadowed]++
			default:
				reasons[c.reason]++
			}
		}
	}
	return reasons
}

// Attach adds the templates of namespaces to the sets of t. Call it before Run.
func (t *Templates) Attach(n *Namespaced) {
	t.namespaced = n
	n.cluster = func() *templates.Set { return t.set.Load() }
	last := t.set.Load()
	t.OnChange(func(set *templates.Set) {
		n.clusterChanged(last, set)
		last = set
	})
}

// withNamespaces returns a set with the templates of namespaces.
func (t *Templates) withNamespaces(set *templates.Set) *templates.Set {
	if t.namespaced == nil {
		return set
	}
	all := *t.namespaced.all.Load()
	return set.WithNamespaces(func(namespace string) []templates.Entry { return all[namespace] })
}

// CompileNamespace compiles a list of a namespace's objects. It returns the entries that [Namespaced] would have. It reads
// from the objects' status whether the namespace is over the budget, because that depends on other namespaces.
func CompileNamespace(list []unstructured.Unstructured, options templates.Options) []templates.Entry {
	s := namespaceState{objects: map[string]*Object{}}
	out := false
	for i := range list {
		o := NewObject(&list[i])
		s.objects[o.Name] = o
		out = out || o.Excess == nil && readyReason(o) == TooLarge
	}
	options.Values = nil
	var entries []templates.Entry
	for _, c := range compileNamespace(s.byAge(), nil, out, options) {
		if c.reason != TooMany {
			entries = append(entries, c.entry(templates.Entry{}, time.Time{}))
		}
	}
	slices.SortFunc(entries, func(a, b templates.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}
