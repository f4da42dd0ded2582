package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// Every is the time from one look at the pods to the next, while there is a canary. It varies
	// by a fifth, and it is four times as long as the look at least.
	Every = 15 * time.Second
	// stint is how many pods are looked at without a pause: reviews come first. They take 5 ms.
	stint, pause = 64, 15 * time.Millisecond
	// retry is how soon a look is made again that failed, that a replica was not ready for, or whose
	// write found a newer object: after as long as the look took, at least.
	retry = time.Second
	// writeTimeout bounds the write of a condition.
	writeTimeout = 10 * time.Second
)

// Options are what [New] needs. All fields are required but List and Write.
type Options struct {
	// StatusKey is the key of the annotation that has the record.
	StatusKey string
	// List lists pods. Nil where pods may not be read: only refusals count then.
	List coverage.List
	// Templates returns the set in force. Object returns the object, or the mirror, of a template;
	// it reports false where the cluster has none.
	Templates func() *templates.Set
	Object    func(template string) (store.Object, bool)
	// Namespace returns a namespace of the cache. Calls reports whether API servers call Pillion for
	// a pod with these annotations there.
	Namespace func(name string) (templates.Namespace, bool)
	Calls     func(ns templates.Namespace, annotations map[string]any) bool
	Refusals  *Refusals
	Rules     Rules
	// Ready returns nil while this replica knows all templates and namespaces, and may write.
	Ready func() error
	// Write patches the status of an object with a JSON merge patch. Nil where the cluster has no
	// objects of templates.
	Write func(ctx context.Context, name string, patch []byte) error
	// StopHere has this replica alone stop a canary, until its manifest changes.
	StopHere func(template string)
	// Stopped hears of each canary whose condition this replica wrote.
	Stopped func(o store.Object, message string)
	Logger  *slog.Logger
}

// Watcher looks at the pods of templates that have canaries, and stops the canaries that fail. Make
// one with [New].
type Watcher struct {
	options Options
	// had are the hashes that each canary has had, by its name: an edit of the stable template's own
	// fields changes the hash, and the pods that have the canary stay its pods.
	had map[string]hashes
	// unwritten are the decisions that are in force here alone.
	unwritten map[string]metav1.Condition
	observed  observed
	blind     bool   // pods may not be listed
	failed    string // the last failure that was logged

	mu    sync.Mutex
	looks map[string]look // by canary
}

// look is what one look found about a canary.
type look struct {
	hash           string
	canary, stable counts
	// blind: pods may not be listed. Unwritten: the canary is stopped here alone.
	blind, unwritten bool
}

type counts struct{ all, failing int }

func countsOf(h Health) counts { return counts{len(h), len(h.Failing())} }

// New returns a watcher that does nothing until [Watcher.Run] runs.
func New(o Options) *Watcher {
	return &Watcher{options: o, unwritten: map[string]metav1.Condition{}, observed: observed{}, looks: map[string]look{}}
}

// Run looks at the pods again and again until ctx ends, which is no error.
func (w *Watcher) Run(ctx context.Context) error {
	wait := jitter()
	for waiting.For(ctx, wait) {
		began := time.Now()
		if w.options.Ready() != nil || w.look(ctx) {
			wait = max(retry, time.Since(began))
		} else {
			wait = max(jitter(), 4*time.Since(began))
		}
	}
	return nil
}

func jitter() time.Duration { return Every*9/10 + rand.N(Every/5) }

// look looks once, and reports whether to look again soon.
func (w *Watcher) look(ctx context.Context) (again bool) {
	// Objects are read before the set: a decision about a manifest that is not the object's any more
	// finds another resourceVersion.
	objects := map[string]store.Object{}
	for _, c := range w.options.Templates().Canaries() {
		if o, ok := w.options.Object(c.Name); ok {
			objects[c.Name] = o
		}
	}
	set, found := w.options.Templates(), map[string]look{}
	for _, stable := range stables(set) {
		comparisons, err := w.compare(ctx, set, stable)
		if err != nil {
			if ctx.Err() == nil {
				w.found(nil)
				w.fail(fmt.Sprintf("looking at the pods of the template %s, which has a canary: %v; the next look tries again", stable, err))
			}
			return true
		}
		for _, c := range set.CanariesOf(stable) {
			comparison, ok := comparisons[c.Name]
			if !ok {
				continue
			}
			if e, _ := set.Get(stable); c.Version.Hash() != e.Template.Hash() { // else it changes nothing
				again = w.decide(ctx, c, objects, comparison) || again
			}
			_, unwritten := w.unwritten[c.Name]
			found[c.Name] = look{c.Version.Hash(), countsOf(comparison.Canary), countsOf(comparison.Stable), w.blind, unwritten}
		}
	}
	w.observed.forget(time.Now(), w.options.Rules.NotReady)
	maps.DeleteFunc(w.unwritten, func(name string, _ metav1.Condition) bool { _, ok := set.Canary(name); return !ok })
	w.found(found)
	return again
}

func (w *Watcher) found(looks map[string]look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = looks
}

// stables returns the names of the templates that have a usable canary.
func stables(set *templates.Set) []string {
	var names []string
	for _, c := range set.Canaries() {
		if c.Version != nil {
			names = append(names, c.Of)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hashes are those of a canary since its own manifest is as it is.
type hashes struct {
	of  *templates.Template
	all []string
}

// hashesOf returns the hashes that a canary has had.
func (w *Watcher) hashesOf(c templates.Canary) []string {
	h := w.had[c.Name]
	if h.of != c.Template {
		h = hashes{of: c.Template}
	}
	if hash := c.Version.Hash(); !slices.Contains(h.all, hash) {
		h.all = append(h.all, hash)
	}
	if w.had == nil {
		w.had = map[string]hashes{}
	}
	w.had[c.Name] = h
	return h.all
}

// version is a version of a template whose pods are counted.
type version struct {
	added  []*regexp.Regexp
	health Health
}

// compare counts the workloads of a template with canaries. It returns a comparison for each canary
// that is usable, by name.
func (w *Watcher) compare(ctx context.Context, set *templates.Set, stable string) (map[string]Comparison, error) {
	e, _ := set.Get(stable)
	versions := map[string]version{e.Template.Hash(): {e.Template.AddedContainers(), Health{}}}
	all := map[string]Comparison{}
	for _, c := range set.CanariesOf(stable) {
		if c.Version == nil {
			continue
		}
		if _, ok := versions[c.Version.Hash()]; !ok {
			versions[c.Version.Hash()] = version{c.Version.AddedContainers(), Health{}}
		}
		for _, hash := range w.hashesOf(c) {
			if _, ok := versions[hash]; !ok {
				versions[hash] = versions[c.Version.Hash()]
			}
		}
		all[c.Name] = Comparison{Tolerate: c.Tolerate()}
	}
	if err := w.count(ctx, stable, versions); err != nil {
		return nil, err
	}
	for hash, v := range versions {
		w.options.Refusals.Add(v.health, Version{stable, hash})
	}
	for name, c := range all {
		canary, _ := set.Canary(name)
		c.Stable, c.Canary = versions[e.Template.Hash()].health, versions[canary.Version.Hash()].health
		all[name] = w.within(canary, c)
	}
	return all, nil
}

// within leaves to a canary the workloads of the namespaces that it selects: in others the record of
// a pod that names its hash is forged, or of before the namespace was labelled anew.
func (w *Watcher) within(c templates.Canary, all Comparison) Comparison {
	own := Health{}
	for workload, f := range all.Canary {
		ns, _ := w.options.Namespace(workload.Namespace)
		if selected, _ := c.Matches(ns.Labels, nil); selected {
			own[workload] = f
		}
	}
	all.Canary = own
	return all
}

// count adds the pods of a template to the versions that they have.
func (w *Watcher) count(ctx context.Context, stable string, versions map[string]version) error {
	if w.options.List == nil {
		w.blind = true
		return nil
	}
	selector := record.LabelKeysOf(w.options.StatusKey).Hash(stable)
	var list coverage.List = func(ctx context.Context, namespace string, o metav1.ListOptions) (io.ReadCloser, error) {
		o.LabelSelector = selector
		return w.options.List(ctx, namespace, o)
	}
	now, n := time.Now(), 0
	_, err := list.Each(ctx, "", func(pod map[string]any) error {
		if n++; n%stint == 0 && !waiting.For(ctx, pause) {
			return ctx.Err()
		}
		if ended(pod) {
			return nil
		}
		metadata := object(pod, "metadata")
		ns, ok := w.options.Namespace(text(metadata, "namespace"))
		if !ok || !w.options.Calls(ns, object(metadata, "annotations")) {
			return nil // nobody injects there, so the record is forged
		}
		rec, _ := record.Parse(pod, w.options.StatusKey) // a record that cannot be read counts as none
		if v, ok := versions[rec.Hash(stable)]; ok {
			v.health.Note(Workload{ns.Name, owner.Topmost(pod)}, w.options.Rules.failure(pod, rec, v.added, now, func(container string, since time.Time) time.Duration {
				return w.observed.of(state{text(metadata, "uid"), container, since.UnixNano()}, now)
			}))
		}
		return nil
	})
	if w.blind = apierrors.IsForbidden(err); w.blind {
		w.fail(fmt.Sprintf("missing permission: the verb list on the resource pods, in all namespaces. So canaries of templates stop only for pods that Pillion refuses. "+
			"The chart grants it with coverage.enabled=true and rbac.create=true, and not with rbac.hardened=true: %v", err))
		return nil
	}
	return err
}

// decide stops a canary that fails, and reports whether to decide again soon.
func (w *Watcher) decide(ctx context.Context, c templates.Canary, objects map[string]store.Object, all Comparison) (again bool) {
	condition, decided := w.unwritten[c.Name]
	switch {
	case c.Stopped && !decided:
		return false
	case c.Stopped: // by this replica alone
	default:
		delete(w.unwritten, c.Name)
		why, message := Judge(all)
		if why == "" {
			return false
		}
		condition = metav1.Condition{Type: v1alpha1.Stopped, Status: metav1.ConditionTrue, Reason: why, Message: message}
		w.options.Logger.Warn("stopping a canary", "canary", c.Name, "of", c.Of, "reason", why, "message", message)
	}
	o, ok := objects[c.Name]
	err := fmt.Errorf("the cluster has no SidecarTemplate %s", c.Name)
	switch {
	case ok && o.Status.IsStopped(o.Generation):
		delete(w.unwritten, c.Name) // another replica was first
		return false
	case ok && w.options.Write != nil:
		err = w.write(ctx, o, condition)
	}
	switch {
	case err == nil:
		delete(w.unwritten, c.Name)
		w.options.Stopped(o, condition.Message)
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return true
	default:
		w.unwritten[c.Name] = condition
		if !c.Stopped {
			w.options.StopHere(c.Name)
		}
		w.fail(fmt.Sprintf("writing the condition Stopped of the canary %s: %v; it is stopped on this replica, and each other replica decides for itself", c.Name, err))
	}
	return false
}

// write writes the condition, if the object is still the one that was decided about.
func (w *Watcher) write(ctx context.Context, o store.Object, c metav1.Condition) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := StopPatch(o, c)
	if err != nil {
		return err
	}
	return w.options.Write(ctx, o.Name, patch)
}

// StopPatch returns the merge patch of an object's status that adds a condition Stopped, if the object is
// still the one that was decided about.
func StopPatch(o store.Object, stopped metav1.Condition) ([]byte, error) {
	stopped.ObservedGeneration = o.Generation
	conditions := slices.Clone(o.Status.Conditions)
	meta.SetStatusCondition(&conditions, stopped)
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
}

// fail logs what goes wrong, once.
func (w *Watcher) fail(message string) {
	if message != w.failed {
		w.options.Logger.Warn("canaries", "error", message)
	}
	w.failed = message
}
