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

// Who may edit a namespace may write its templates, so each of these bounds what one tenant, or all of them
// together, can make Pillion spend.
const (
	// page is how many objects a page of a list has: one of them may have more than a megabyte.
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
	// Compile has what all templates are compiled with. Its values are not used.
	Compile templates.Options
	// Budget is what the templates of all namespaces may cost together, in bytes of memory.
	Budget int64
	Logger *slog.Logger
}

// Namespaced follows the templates that namespaces have of their own. Make one with [NewNamespaced].
type Namespaced struct {
	o       NamespacedOptions
	objects *follower
	loop    *reconcile.Loop[string]
	// changed is called with a namespace whose templates in force changed, and judged with the verdicts on them.
	changed []func(namespace string)
	judged  func(namespace string, verdicts []Verdict)
	cluster func() *templates.Set
	// all are the templates in force, by namespace.
	all atomic.Pointer[map[string][]templates.Entry]

	mu         sync.Mutex
	namespaces map[string]*namespaceState
	// byCost has the namespaces, the cheapest first.
	byCost []*namespaceState
	// first are the namespaces that have yet to be compiled for the first time; nil before the list.
	first   map[string]bool
	failure string
}

// namespaceState is what is known of the templates of a namespace.
type namespaceState struct {
	name    string
	objects map[string]*Object
	known   map[string]*compiled
	cost    int64
	// out: the templates of all namespaces cost too much, and these are out of force.
	out     bool
	limiter *rate.Limiter
	// queued: the namespace is going to be reconciled.
	queued bool
}

// NewNamespaced returns a store that is empty until [Namespaced.Run] runs.
func NewNamespaced(o NamespacedOptions) *Namespaced {
	n := &Namespaced{
		o: o, loop: reconcile.NewLoop[string](time.Second, 30*time.Second), namespaces: map[string]*namespaceState{},
		judged: func(string, []Verdict) {}, cluster: func() *templates.Set { return templates.NewSet(nil) },
	}
	n.o.Compile.Values = nil
	n.all.Store(&map[string][]templates.Entry{})
	n.objects = newFollower(o.Client, NamespacedResource, "templates of namespaces", o.Logger, followerOptions{changed: n.objectChanged, filled: n.listed, page: page})
	return n
}

// OnChange calls f with each namespace whose templates in force changed. f must return soon. Call it before Run.
func (n *Namespaced) OnChange(f func(namespace string)) { n.changed = append(n.changed, f) }

// OnVerdicts calls f with the verdicts on the objects of a namespace. What [Namespaced.OnChange] says of f holds.
func (n *Namespaced) OnVerdicts(f func(namespace string, verdicts []Verdict)) { n.judged = f }

// Ready returns nil once all objects were listed and compiled, and until then what is missing, in words.
func (n *Namespaced) Ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.first == nil {
		return n.objects.unread()
	}
	if len(n.first) > 0 {
		return fmt.Errorf("templates of %d namespaces are not compiled yet", len(n.first))
	}
	return nil
}

// State tells how current the templates are.
func (n *Namespaced) State() follow.State { return n.objects.State() }

// Run follows the templates until ctx ends, which is no error.
func (n *Namespaced) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { n.objects.Run(ctx) })
	n.loop.Run(ctx, workers, n.reconcile)
	return nil
}

// listed has each namespace compiled for the first time.
func (n *Namespaced) listed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.first = map[string]bool{}
	for name := range n.namespaces {
		n.first[name] = true
		n.loop.Add(name)
	}
}

// oldest returns the objects in the order in which they count.
func (s *namespaceState) oldest() []*Object {
	return slices.SortedFunc(maps.Values(s.objects), func(a, b *Object) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// objectChanged has the namespace of an object reconciled, once its bounds allow it.
func (n *Namespaced) objectChanged(key string) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return
	}
	obj, there := n.objects.Get(key)
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.namespaces[namespace]
	if s == nil {
		s = &namespaceState{name: namespace, objects: map[string]*Object{}, known: map[string]*compiled{}, limiter: rate.NewLimiter(compilesPerSecond, compilesAtOnce)}
		n.namespaces[namespace] = s
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

// clusterChanged has the namespaces judged again whose templates the cluster's set shadows, or no longer.
func (n *Namespaced) clusterChanged(before, set *templates.Set) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for namespace, s := range n.namespaces {
		for name := range s.known {
			_, was := before.Find(name)
			if _, shadowed := set.Find(name); was != shadowed {
				n.loop.Add(namespace)
				break
			}
		}
	}
}

// reconcile compiles what changed in a namespace.
func (n *Namespaced) reconcile(ctx context.Context, namespace string) (time.Duration, error) {
	n.mu.Lock()
	s := n.namespaces[namespace]
	if s == nil {
		n.mu.Unlock()
		return reconcile.Never, nil
	}
	s.queued = false
	objects, before := s.oldest(), s.known
	n.admit(s, costOf(objects))
	out := s.out
	n.mu.Unlock()

	now := compileNamespace(objects, before, out, n.o.Compile)
	err := withLost(ctx, n.objects, now, before)
	n.fail(ctx, err)
	if err != nil {
		return reconcile.Never, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.known = now
	n.publish(namespace, s)
	delete(n.first, namespace)
	if len(s.objects)+len(now) == 0 && s.limiter.Tokens() >= compilesAtOnce-1 { // else its bounds begin anew
		delete(n.namespaces, namespace)
		n.unlist(s)
	}
	return reconcile.Never, nil
}

// costOf returns what the objects that count cost.
func costOf(oldest []*Object) (sum int64) {
	for _, o := range oldest[:min(len(oldest), templates.MaxInNamespace)] {
		sum += o.Cost
	}
	return sum
}

// compileNamespace returns the objects of a namespace, the oldest first, with what became of them, by their keys. out
// says that there is no room for them.
func compileNamespace(oldest []*Object, before map[string]*compiled, out bool, options templates.Options) map[string]*compiled {
	now := make(map[string]*compiled, len(oldest))
	for i, o := range oldest {
		switch {
		case i >= templates.MaxInNamespace:
			now[o.Name] = &compiled{Object: o, reason: TooMany, err: fmt.Errorf("the namespace has %d older templates, and no more count; delete this one, or delete another and then change this one", templates.MaxInNamespace)}
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

// admit says which namespaces find room, now that one has another cost: the cheapest first, so that no tenant takes
// the room of one that needs less.
func (n *Namespaced) admit(s *namespaceState, cost int64) {
	n.unlist(s)
	s.cost = cost
	i, _ := slices.BinarySearchFunc(n.byCost, s, compareCosts)
	n.byCost = slices.Insert(n.byCost, i, s)
	var sum int64
	for _, other := range n.byCost {
		sum += other.cost
		if out := sum > n.o.Budget; out != other.out {
			if other.out = out; other != s {
				n.loop.Add(other.name)
			}
		}
	}
}

func (n *Namespaced) unlist(s *namespaceState) {
	if i, there := slices.BinarySearchFunc(n.byCost, s, compareCosts); there {
		n.byCost = slices.Delete(n.byCost, i, i+1)
	}
}

func compareCosts(a, b *namespaceState) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.name, b.name))
}

// publish puts a namespace's templates in force, and tells the verdicts on its objects.
func (n *Namespaced) publish(namespace string, s *namespaceState) {
	set, before, at := n.cluster(), (*n.all.Load())[namespace], time.Now()
	var entries []templates.Entry
	var verdicts []Verdict
	for _, name := range slices.Sorted(maps.Keys(s.known)) {
		c := s.known[name]
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
	n.judged(namespace, verdicts)
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
	n.mu.Lock()
	defer n.mu.Unlock()
	if text := errorText(err); ctx.Err() == nil && text != n.failure {
		if n.failure = text; text != "" {
			n.o.Logger.Error("templates of a namespace cannot be read; those that were last read stay in force", "error", text)
		}
	}
}

// Count returns how many objects a namespace has.
func (n *Namespaced) Count(namespace string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.namespaces[namespace]; s != nil {
		return len(s.objects)
	}
	return 0
}

// Reasons returns how many objects there are by the reason of their condition Ready.
func (n *Namespaced) Reasons() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	set := n.cluster()
	reasons := map[string]int{Compiled: 0, CompileFailed: 0, Shadowed: 0, TooMany: 0, TooLarge: 0}
	for _, s := range n.namespaces {
		for name, c := range s.known {
			_, shadowed := set.Find(name)
			switch {
			case c.lost: // there is no object
			case shadowed && c.reason != TooMany:
				reasons[Shadowed]++
			default:
				reasons[c.reason]++
			}
		}
	}
	return reasons
}

// Attach has the templates of namespaces follow those of the cluster: their sets have both. Call it before Run.
func (t *Templates) Attach(n *Namespaced) {
	t.namespaced = n
	n.cluster = func() *templates.Set { return t.set.Load() }
	last := t.set.Load()
	t.OnChange(func(set *templates.Set) {
		n.clusterChanged(last, set)
		last = set
	})
}

// withNamespaces returns a set with the templates that namespaces have of their own.
func (t *Templates) withNamespaces(set *templates.Set) *templates.Set {
	if t.namespaced == nil {
		return set
	}
	all := *t.namespaced.all.Load()
	return set.WithNamespaces(func(namespace string) []templates.Entry { return all[namespace] })
}

// CompileNamespace returns the templates in force of a namespace, of a list of its objects, as [Namespaced] has them.
// Where its status says so, there is no room for one: that depends on other namespaces.
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
	for _, c := range compileNamespace(s.oldest(), nil, out, options) {
		if c.reason != TooMany {
			entries = append(entries, c.entry(templates.Entry{}, time.Time{}))
		}
	}
	slices.SortFunc(entries, func(a, b templates.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}
