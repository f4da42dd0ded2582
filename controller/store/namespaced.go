package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/reconcile"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// NamespacedResource is the plural name of NamespacedSidecarTemplates in the API.
const NamespacedResource = "namespacedsidecartemplates"

// Whoever may edit a namespace may write its templates, so each of these bounds what one tenant, or
// all of them together, can make Pillion spend.
const (
	// mostPerPage is how many objects a page of a list has: their metadata can have half a megabyte.
	mostPerPage = 20
	// looksPerSecond bounds how often a namespace's templates are read and compiled, after
	// looksAtOnce.
	looksPerSecond = 0.5
	looksAtOnce    = 10
	// firstLooks is how long the first look at all namespaces may keep a replica unready.
	firstLooks = 30 * time.Second
	// firstLookRetry and lastLookRetry are the pauses after a namespace could not be read.
	firstLookRetry, lastLookRetry = time.Second, 30 * time.Second
	readLimit                     = 10 * time.Second
	lookers                       = 2
)

// The reasons of the condition Ready of a NamespacedSidecarTemplate, besides those of other templates.
const (
	// Shadowed: a template of the cluster has the name, and counts.
	Shadowed = "Shadowed"
	// TooMany: the namespace has older templates, as many as count.
	TooMany = "TooMany"
	// TooExpensive: the template is too large, or those of the namespace together cost too much.
	TooExpensive = "TooExpensive"
	// NoRoom: the templates of all namespaces cost more than Pillion has memory for, and those of
	// this one are among the most expensive.
	NoRoom = "NoRoom"
	// NamespaceExcluded: the admin keeps Pillion out of the namespace.
	NamespaceExcluded = "NamespaceExcluded"
	// SwitchedOff: the admin has no templates of namespaces served.
	SwitchedOff = "SwitchedOff"
)

const noRoom = "the templates of all namespaces cost more than Pillion has memory for, and those of this namespace are among the most expensive; write fewer expressions, or have the cluster's admin raise Pillion's memory limit"

// NamespacedOptions are what [NewNamespaced] needs. All fields but the last two are required.
type NamespacedOptions struct {
	// Metadata needs the verbs list and watch on the resource [NamespacedResource] of the API group
	// Group, and the verb get on its CRD. Read needs the verb get on the resource: it returns the
	// JSON of one object.
	Metadata metadata.Interface
	Group    string
	Read     func(ctx context.Context, namespace, name string) ([]byte, error)
	// Compile has the prefix. Its values are not used.
	Compile templates.Options
	// Budget is what the templates of all namespaces may cost together, in bytes of memory.
	Budget int64
	Logger *slog.Logger
	// SwitchedOff: no template is in force, and their statuses say so.
	SwitchedOff bool
	// Excluded are the namespaces whose templates are not in force.
	Excluded []string
}

// outOfForce returns why no template of a namespace is in force, as the reason of the condition Ready
// and in words.
func (o *NamespacedOptions) outOfForce(namespace string) (reason string, err error) {
	switch {
	case o.SwitchedOff:
		return SwitchedOff, errors.New("templates of namespaces are switched off (namespacedTemplates.enabled=false); this one is not in force: have the cluster's admin switch them on, or delete it")
	case slices.Contains(o.Excluded, namespace):
		return NamespaceExcluded, fmt.Errorf("namespace %s is excluded (excludedNamespaces, or Pillion's own), so no pod there is injected; write the template in another namespace", namespace)
	}
	return "", nil
}

// Namespaced follows the templates that namespaces have of their own. It knows of all objects their
// metadata; a spec is read by itself, and only of a namespace that changed. Make one with
// [NewNamespaced].
type Namespaced struct {
	o     NamespacedOptions
	cache *follow.Cache
	loop  *reconcile.Loop[string]
	// changed hears of the templates of a namespace, and judged of the verdicts on them.
	changed []func(namespace string)
	judged  func(namespace string, verdicts []Verdict)
	cluster func() *templates.Set
	// all are the templates in force.
	all atomic.Pointer[map[string][]templates.Entry]

	mu         sync.Mutex
	namespaces map[string]*namespaceState
	// byCost has the namespaces that were looked at, the cheapest first.
	byCost []*namespaceState
	// first are the namespaces that have yet to be looked at for the first time; nil before the
	// list. firstBy is when nobody waits for them any more.
	first   map[string]bool
	firstBy time.Time
	failure string
	// said bounds how often the log says what may be so in all namespaces.
	said rate.Sometimes
}

// namespaceState is what is known of the templates of a namespace.
type namespaceState struct {
	name    string
	objects map[string]*objectMetadata
	known   map[string]*namespacedTemplate
	cost    int64
	// out: the templates of all namespaces cost too much, and these are out of force.
	out     bool
	limiter *rate.Limiter
	// waiting: a look is to come.
	waiting bool
}

// objectMetadata is what the cache keeps of an object.
type objectMetadata struct{ metav1.ObjectMeta }

// namespacedTemplate is an object as it was last read.
type namespacedTemplate struct {
	Object
	cost int64
	sum  [sha256.Size]byte
	// template is the last good version, nil if there is none.
	template *templates.Template
	// reason and err say why the object's newest spec is not in force.
	reason string
	err    error
	// noRoom is set while the template is out of force because the namespace is.
	noRoom error
	// shadowed: a template of the cluster has the name.
	shadowed bool
	// lost: the object went with its CRD, and the template stays in force.
	lost bool
}

// uncounted reports whether the template counts nowhere, whatever its spec is.
func (k *namespacedTemplate) uncounted() bool {
	return k.reason == TooMany || k.reason == NamespaceExcluded || k.reason == SwitchedOff
}

// ready returns the reason of the condition Ready.
func (k *namespacedTemplate) ready() string {
	switch {
	case k.uncounted():
		return k.reason
	case k.shadowed:
		return Shadowed
	case k.noRoom != nil:
		return NoRoom
	}
	return cmp.Or(k.reason, Compiled)
}

// NewNamespaced returns what follows nothing until [Namespaced.Run] runs.
func NewNamespaced(o NamespacedOptions) *Namespaced {
	n := &Namespaced{o: o, loop: reconcile.NewLoop[string](firstLookRetry, lastLookRetry), namespaces: map[string]*namespaceState{}, said: rate.Sometimes{First: 10, Interval: 10 * time.Second}, cluster: func() *templates.Set { return templates.NewSet(nil) }}
	n.o.Compile.Values = nil
	n.all.Store(&map[string][]templates.Entry{})
	resource := o.Metadata.Resource(schema.GroupVersionResource{Group: o.Group, Version: v1alpha1.Version, Resource: NamespacedResource})
	n.cache = follow.New(follow.Options{
		Name: "templates of namespaces", Example: &metav1.PartialObjectMetadata{}, Logger: o.Logger,
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.Limit == 0 || options.Limit > mostPerPage {
				options.Limit = mostPerPage
			}
			return resource.List(ctx, options)
		},
		Watch: resource.Watch,
		Transform: func(obj any) (any, error) {
			m, ok := obj.(*metav1.PartialObjectMetadata)
			if !ok {
				return obj, nil
			}
			return &objectMetadata{metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation, CreationTimestamp: m.CreationTimestamp}}, nil
		},
		Changed: n.objectChanged, Filled: n.listed,
	})
	return n
}

// OnChange calls f with each namespace whose templates in force changed. f must return soon. Call it
// before Run.
func (n *Namespaced) OnChange(f func(namespace string)) { n.changed = append(n.changed, f) }

// OnVerdicts calls f with the verdicts on the objects of a namespace, whose names are NAMESPACE/NAME.
// What [Namespaced.OnChange] says of f holds.
func (n *Namespaced) OnVerdicts(f func(namespace string, verdicts []Verdict)) { n.judged = f }

// Loaded returns nil once every namespace has been looked at, or has had time enough for it, and
// until then what is missing.
func (n *Namespaced) Loaded() error {
	if err := n.cache.Failed("list"); err != nil && !n.cache.HasSynced() {
		if apierrors.IsNotFound(err) {
			return nil // the CRD is not installed
		}
		return fmt.Errorf("templates of namespaces: the verb list on %s.%s: %w", NamespacedResource, n.o.Group, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.first == nil:
		return errors.New("templates of namespaces: not listed yet")
	case len(n.first) > 0 && time.Now().Before(n.firstBy):
		return fmt.Errorf("templates of namespaces: those of %d namespaces are not read yet", len(n.first))
	}
	return nil
}

// Run follows the templates until ctx ends, which is no error.
func (n *Namespaced) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { n.cache.Run(ctx) })
	n.loop.Run(ctx, lookers, n.look)
	return nil
}

// listed notes which namespaces are to be looked at for the first time. Until then their templates
// are known by name.
func (n *Namespaced) listed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.first, n.firstBy = map[string]bool{}, time.Now().Add(firstLooks)
	all := maps.Clone(*n.all.Load())
	for name, s := range n.namespaces {
		n.first[name] = true
		n.loop.Add(name)
		if all[name] != nil {
			continue // it was looked at meanwhile
		}
		var entries []templates.Entry
		for _, m := range s.oldest() {
			entries = append(entries, templates.Entry{Name: m.Name, Namespace: name, Source: templates.SourceIn(name, m.Name), Err: templates.ErrUnread})
		}
		all[name] = entries[:min(len(entries), templates.MaxInNamespace)]
	}
	n.all.Store(&all)
}

// oldest returns the objects in the order in which they count.
func (s *namespaceState) oldest() []*objectMetadata {
	return slices.SortedFunc(maps.Values(s.objects), func(a, b *objectMetadata) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// objectChanged has the namespace of an object looked at.
func (n *Namespaced) objectChanged(key string) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return
	}
	obj, there := n.cache.Get(key)
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.namespaces[namespace]
	if s == nil {
		s = &namespaceState{name: namespace, objects: map[string]*objectMetadata{}, known: map[string]*namespacedTemplate{}, limiter: rate.NewLimiter(looksPerSecond, looksAtOnce)}
		n.namespaces[namespace] = s
	}
	if m, ok := obj.(*objectMetadata); there && ok {
		s.objects[name] = m
	} else {
		delete(s.objects, name)
	}
	n.schedule(namespace, s)
}

// schedule has a namespace looked at, once its bounds allow it.
func (n *Namespaced) schedule(namespace string, s *namespaceState) {
	if s.waiting {
		return
	}
	s.waiting = true
	n.loop.AddAfter(namespace, s.limiter.Reserve().Delay())
}

// ClusterChanged says that the set of the cluster is another one: names may be shadowed now.
func (n *Namespaced) ClusterChanged(set *templates.Set) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for namespace, s := range n.namespaces {
		for name, k := range s.known {
			if _, shadowed := set.Find(name); shadowed != k.shadowed {
				n.loop.Add(namespace)
				break
			}
		}
	}
}

// look reads and compiles what changed in a namespace.
func (n *Namespaced) look(ctx context.Context, namespace string) (time.Duration, error) {
	n.mu.Lock()
	s := n.namespaces[namespace]
	if s == nil {
		n.mu.Unlock()
		return reconcile.Never, nil
	}
	s.waiting = false
	objects := s.oldest()
	known := maps.Clone(s.known)
	n.mu.Unlock()

	now, err := n.read(ctx, objects, known)
	if err == nil {
		err = n.keepLost(ctx, namespace, now, known)
	}
	n.fail(ctx, err)
	if err != nil {
		return reconcile.Never, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.known = now
	var cost int64
	for _, k := range now {
		cost += k.cost
	}
	n.admit(s, cost)
	if s.out {
		for _, k := range now {
			if k.template != nil {
				k.noRoom = k.template.WithoutRoom(noRoom)
				k.template, k.sum = nil, [sha256.Size]byte{}
				k.ResourceVersion = "" // it is read anew once there is room
			}
		}
	}
	n.publish(namespace, s)
	delete(n.first, namespace)
	if len(s.objects)+len(now) == 0 && s.limiter.Tokens() >= looksAtOnce-1 { // else its bounds begin anew
		delete(n.namespaces, namespace)
		n.unlist(s)
	}
	return reconcile.Never, nil
}

// read returns the objects that count, by name, with their newest versions compiled.
func (n *Namespaced) read(ctx context.Context, objects []*objectMetadata, known map[string]*namespacedTemplate) (map[string]*namespacedTemplate, error) {
	now := make(map[string]*namespacedTemplate, len(objects))
	var cost int64
	for i, m := range objects {
		before := known[m.Name]
		if before != nil && before.lost {
			before = nil
		}
		if out, _ := n.o.outOfForce(m.Namespace); out == "" && i >= templates.MaxInNamespace {
			k := &namespacedTemplate{Object: objectAt(m, before), reason: TooMany,
				err: fmt.Errorf("the namespace has %d older templates, and no more count; delete this one, or another and then touch this one", templates.MaxInNamespace)}
			now[m.Name] = k
			continue
		}
		k := before
		if before == nil || before.UID != m.UID || before.ResourceVersion != m.ResourceVersion || before.reason == TooMany {
			var err error
			if k, err = n.one(ctx, m, before, templates.MaxNamespaceCost-cost); err != nil {
				if apierrors.IsNotFound(err) {
					continue // the cache is about to hear of it
				}
				return nil, err
			}
		}
		cost += k.cost
		k.Created = m.CreationTimestamp
		now[m.Name] = k
	}
	return now, nil
}

// keepLost adds the templates to those of now whose objects went with their CRD: an object that was
// deleted while there was no CRD of its own any more.
func (n *Namespaced) keepLost(ctx context.Context, namespace string, now, known map[string]*namespacedTemplate) error {
	var went func(created metav1.Time) bool
	for name, k := range known {
		if now[name] != nil || k.uncounted() {
			continue
		}
		if !k.lost {
			if went == nil {
				var err error
				if went, err = n.definition(ctx); err != nil {
					return err
				}
			}
			if !went(k.Created) {
				continue
			}
			lost := *k
			k, lost.lost = &lost, true
			if k.template != nil {
				k.err = fmt.Errorf("the CRD was deleted, and %s %s/%s with it; the last version stays in force until the object is back: apply it again, or, if it is to go, apply it and delete it", v1alpha1.NamespacedKind, namespace, name)
			}
			n.said.Do(func() {
				n.o.Logger.Error("the CRD was deleted, and templates of namespaces with it; their last versions stay in force until they are back, or Pillion restarts", "namespace", namespace, "template", name)
			})
		}
		now[name] = k
	}
	return nil
}

// definition reads the CRD. Without the right to do so, no template went with it.
func (n *Namespaced) definition(ctx context.Context) (func(created metav1.Time) bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	name := NamespacedResource + "." + n.o.Group
	went, err := wentWithCRD(n.o.Metadata.Resource(definitions).Get(ctx, name, metav1.GetOptions{}))
	switch {
	case apierrors.IsForbidden(err):
		n.said.Do(func() {
			n.o.Logger.Error("missing permission: the verb get on the CRD; deleting the CRD cannot be told from deleting each template", "crd", name, "error", err)
		})
		return func(metav1.Time) bool { return false }, nil
	case err != nil:
		return nil, fmt.Errorf("reading the CRD of templates that are gone: %w", err)
	}
	return went, nil
}

// OldestFirst sorts the templates of a namespace as they count.
func OldestFirst(objects []unstructured.Unstructured) {
	slices.SortFunc(objects, func(a, b unstructured.Unstructured) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// CompileNamespace returns the templates in force of a namespace, of its objects, as [Namespaced] makes
// them. What their status says of room counts: it depends on other namespaces.
func CompileNamespace(objects []unstructured.Unstructured, compile templates.Options) ([]templates.Entry, error) {
	OldestFirst(objects)
	n := &Namespaced{o: NamespacedOptions{Compile: compile}}
	var entries []templates.Entry
	var cost int64
	for _, o := range objects[:min(len(objects), templates.MaxInNamespace)] {
		data, err := json.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("writing %s as JSON: %w", o.GetName(), err)
		}
		n.o.Read = func(context.Context, string, string) ([]byte, error) { return data, nil }
		m := &objectMetadata{metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID()}}
		k, err := n.one(context.Background(), m, nil, templates.MaxNamespaceCost-cost)
		if err != nil {
			return nil, err
		}
		cost += k.cost
		e := templates.Entry{Name: m.Name, Namespace: m.Namespace, Source: templates.SourceIn(m.Namespace, m.Name), Template: k.template, Err: k.err}
		if c := meta.FindStatusCondition(k.Status.Conditions, Ready); c != nil && c.Reason == NoRoom && k.template != nil {
			e.Template, e.Err = nil, k.template.WithoutRoom(noRoom)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// objectAt returns what is known of an object by its metadata, with the status that was last read.
func objectAt(m *objectMetadata, before *namespacedTemplate) Object {
	o := Object{Name: m.Namespace + "/" + m.Name, UID: m.UID, Generation: m.Generation, ResourceVersion: m.ResourceVersion}
	if before != nil && before.UID == m.UID {
		o.Status = before.Status
	}
	return o
}

// one reads an object, and compiles its spec if that is another one than before. Room is what it may
// cost.
func (n *Namespaced) one(ctx context.Context, m *objectMetadata, before *namespacedTemplate, room int64) (*namespacedTemplate, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	data, err := n.o.Read(ctx, m.Namespace, m.Name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", templates.SourceIn(m.Namespace, m.Name), err)
	}
	var object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     json.RawMessage   `json:"spec"`
		Status   json.RawMessage   `json:"status"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", templates.SourceIn(m.Namespace, m.Name), err)
	}
	k := &namespacedTemplate{Object: Object{Name: m.Namespace + "/" + m.Name, UID: object.Metadata.UID, Generation: object.Metadata.Generation, ResourceVersion: object.Metadata.ResourceVersion}}
	if json.Unmarshal(object.Status, &k.Status) != nil {
		k.Status = v1alpha1.SidecarTemplateStatus{} // it is going to be written anew
	}
	if k.reason, k.err = n.o.outOfForce(m.Namespace); k.reason != "" {
		return k, nil
	}
	options := n.o.Compile
	options.Source = templates.SourceIn(m.Namespace, m.Name)
	if err := templates.TooLarge(object.Spec); err != nil {
		k.reason, k.err = TooExpensive, templates.WithoutRoom(m.Namespace, m.Name, object.Spec, err.Error(), options)
		return k, nil
	}
	if k.cost = templates.Cost(object.Spec); k.cost > room {
		const why = "the older templates of the namespace leave no room for it: a namespace may have some 80 expressions"
		k.reason, k.err, k.cost = TooExpensive, templates.WithoutRoom(m.Namespace, m.Name, object.Spec, why, options), 0
		return k, nil
	}
	k.sum = sha256.Sum256(object.Spec)
	if before != nil && before.UID == k.UID && before.sum == k.sum && before.reason != TooExpensive {
		k.template, k.reason, k.err = before.template, before.reason, before.err
		return k, nil
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.NamespacedKind,
		"metadata": map[string]any{"name": m.Name, "namespace": m.Namespace}, "spec": object.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("writing %s as JSON: %w", templates.SourceIn(m.Namespace, m.Name), err)
	}
	if k.template, _, err = templates.Compile(manifest, options); err != nil {
		k.reason, k.err = CompileFailed, err
		if before != nil && before.UID == k.UID && before.template != nil {
			k.template, k.cost = before.template, max(k.cost, before.cost)
		}
	}
	return k, nil
}

// admit says which namespaces find room, now that one has another cost: the cheapest first, so that no
// tenant takes the room of one that needs less.
func (n *Namespaced) admit(s *namespaceState, cost int64) {
	n.unlist(s)
	s.cost = cost
	i, _ := slices.BinarySearchFunc(n.byCost, s, compareCosts)
	n.byCost = slices.Insert(n.byCost, i, s)
	var sum int64
	for _, s := range n.byCost {
		sum += s.cost
		if out := sum > n.o.Budget; out != s.out {
			s.out = out
			n.loop.Add(s.name)
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

// publish puts a namespace's templates in force, and says what there is to say of its objects.
func (n *Namespaced) publish(namespace string, s *namespaceState) {
	set := n.cluster()
	var entries []templates.Entry
	verdicts := make([]Verdict, 0, len(s.known))
	for _, name := range slices.Sorted(maps.Keys(s.known)) {
		k := s.known[name]
		_, k.shadowed = set.Find(name)
		e := templates.Entry{Name: name, Namespace: namespace, Source: templates.SourceIn(namespace, name), Template: k.template, Err: k.err}
		v := Verdict{Object: k.Object, Reason: k.ready(), Message: inForce, namespaces: -1}
		v.Object.ResourceVersion = s.objects[name].version(k.ResourceVersion)
		switch v.Reason {
		case Shadowed:
			v.Message = fmt.Sprintf("A template of the cluster has the name %s, and counts; rename this object.", name)
		case NoRoom:
			e.Template, e.Err = nil, k.noRoom
		}
		if e.Err != nil && v.Reason != Shadowed {
			v.Message = e.Err.Error()
		}
		if v.Reason == Compiled && k.template != nil {
			v.Hash, v.Template = k.template.Hash(), k.template
		}
		if !k.lost {
			verdicts = append(verdicts, v)
		}
		if !k.uncounted() {
			entries = append(entries, e)
		}
	}
	if n.judged != nil {
		n.judged(namespace, verdicts)
	}
	if slices.EqualFunc((*n.all.Load())[namespace], entries, sameEntry) {
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

// version is the newest known version of an object.
func (m *objectMetadata) version(read string) string {
	if read == "" && m != nil {
		return m.ResourceVersion
	}
	return read
}

// fail logs what goes wrong, once.
func (n *Namespaced) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	text := errorText(err)
	if apierrors.IsForbidden(err) {
		text = fmt.Sprintf("missing permission: the verb get on the resource %s of the API group %s: %v", NamespacedResource, n.o.Group, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if text != "" && text != n.failure {
		n.o.Logger.Warn("templates of a namespace cannot be read; those that were last read stay in force", "error", text)
	}
	n.failure = text
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
	reasons := map[string]int{Compiled: 0, CompileFailed: 0, Shadowed: 0, TooMany: 0, TooExpensive: 0, NoRoom: 0, NamespaceExcluded: 0, SwitchedOff: 0}
	for _, s := range n.namespaces {
		for _, k := range s.known {
			if !k.lost { // else there is no object
				reasons[k.ready()]++
			}
		}
	}
	return reasons
}

// Attach has the templates of namespaces follow those of the cluster: their sets have both.
func (t *Templates) Attach(n *Namespaced) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.namespaced = n
	n.cluster = func() *templates.Set { return t.set.Load() }
	t.listeners = append(t.listeners, n.ClusterChanged)
}

// withNamespaces returns a set with the templates that namespaces have of their own.
func (t *Templates) withNamespaces(set *templates.Set) *templates.Set {
	if t.namespaced == nil {
		return set
	}
	all := *t.namespaced.all.Load()
	return set.WithNamespaces(func(namespace string) []templates.Entry { return all[namespace] })
}
