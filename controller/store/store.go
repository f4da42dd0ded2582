package store

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/templates"
)

const (
	// pause is how long after a look at the objects the next one comes at the soonest: replicas write the status of
	// each template, one after the other. failedPause is the same after a look that failed.
	pause       = 100 * time.Millisecond
	failedPause = time.Second
	// readLimit bounds a read of a CRD.
	readLimit = 10 * time.Second
)

// Options are what [New] needs. All fields are required but BuiltIn.
type Options struct {
	// Client needs the verbs list and watch on SidecarTemplates, and get on their CRD.
	Client dynamic.Interface
	// Compile has the installer's values. Its Source is filled in for each object.
	Compile templates.Options
	// BuiltIn is a template that is a part of the program. An object of its name is not in force.
	BuiltIn *templates.Template
	Logger  *slog.Logger
}

// Templates is the set of templates in force. Make one with [New].
type Templates struct {
	o       Options
	objects *follower
	changed waiting.Wake
	set     atomic.Pointer[templates.Set]
	// namespaced are the templates of namespaces, nil if they are not served.
	namespaced *Namespaced
	listeners  []func(*templates.Set)
	judged     func([]Verdict)

	// known are the objects as they were last compiled, by name. Only the goroutine of Run uses it.
	known map[string]*compiled

	mu sync.Mutex
	// read: all objects were compiled once.
	read bool
	// failure is why the last look failed.
	failure error
}

// New returns a store that is empty until [Templates.Run] runs.
func New(o Options) *Templates {
	t := &Templates{o: o, changed: waiting.NewWake(), judged: func([]Verdict) {}, known: map[string]*compiled{}}
	t.objects = newFollower(o.Client, Resource, "templates", o.Logger, followerOptions{changed: func(string) { t.changed.Wake() }, filled: t.changed.Wake})
	t.set.Store(templates.NewSet(t.builtIn()))
	return t
}

func (t *Templates) builtIn() []templates.Entry {
	if t.o.BuiltIn == nil {
		return nil
	}
	return []templates.Entry{{Name: t.o.BuiltIn.Name(), Template: t.o.BuiltIn}}
}

// OnChange calls f with each new set, from now on, in order and one at a time. f must return soon and must not call
// methods of t but [Templates.Snapshot]. Call it before Run.
func (t *Templates) OnChange(f func(*templates.Set)) { t.listeners = append(t.listeners, f) }

// OnVerdicts calls f with the verdicts on all objects whenever one changed, its status included. What
// [Templates.OnChange] says of f holds.
func (t *Templates) OnVerdicts(f func([]Verdict)) { t.judged = f }

// Run follows the objects until ctx ends, which is no error.
func (t *Templates) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { t.objects.Run(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.changed:
		}
		wait := pause
		if err := t.compile(ctx); err != nil {
			wait = failedPause
			t.changed.Wake()
		}
		if !waiting.For(ctx, wait) {
			return nil
		}
	}
}

// Snapshot returns the set in force. It is never nil, does not wait, and does not change afterwards.
func (t *Templates) Snapshot() *templates.Set { return t.withNamespaces(t.set.Load()) }

// Ready returns nil once all objects were listed and compiled, and until then what is missing, in words. It stays
// nil when the API server cannot be read later: what was read stays in force.
func (t *Templates) Ready() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read {
		return nil
	}
	if err := t.objects.unread(); err != nil {
		return err
	}
	if t.failure != nil {
		return t.failure
	}
	return errors.New("templates are not compiled yet")
}

// State tells how current the templates are.
func (t *Templates) State() follow.State { return t.objects.State() }

// compile puts the objects in force as they are now. It returns an error where it cannot be told yet which are gone.
func (t *Templates) compile(ctx context.Context) error {
	if !t.objects.HasSynced() {
		return nil
	}
	now := map[string]*compiled{}
	for _, o := range t.objects.objects() {
		c := compileObject(o, t.known[o.Name], t.o.Compile)
		if t.o.BuiltIn != nil && o.Name == t.o.BuiltIn.Name() {
			c = &compiled{Object: o, reason: NameTaken, err: errors.New("the name belongs to a template of Pillion's own, by which it proves that it works; choose another name, and delete this object")}
		}
		for _, w := range c.warnings {
			t.o.Logger.Warn("a template has a warning", "warning", w.String())
		}
		now[o.Name] = c
	}
	err := withLost(ctx, t.objects, now, t.known)
	t.fail(ctx, err)
	if err != nil {
		return err
	}
	t.known = now
	t.publish()
	return nil
}

// publish makes the set of the objects as they are known.
func (t *Templates) publish() {
	before, at := t.set.Load(), time.Now()
	entries := t.builtIn()
	for _, c := range t.known {
		if c.reason != NameTaken {
			was, _ := before.Get(c.Name)
			entries = append(entries, c.entry(was, at))
		}
	}
	after := templates.NewSet(entries)
	t.judge(after)
	if !slices.EqualFunc(after.All(), before.All(), sameEntry) {
		t.logChanges(before, after)
		t.set.Store(after)
		for _, f := range t.listeners {
			f(after)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = true
}

// judge tells the verdicts on all objects. Whether a canary can be used depends on the stable template.
func (t *Templates) judge(set *templates.Set) {
	var verdicts []Verdict
	for _, c := range t.known {
		if c.lost {
			continue
		}
		v := c.verdict()
		if canary, ok := set.Canary(c.Name); ok && v.Reason == Compiled {
			if v.Hash = set.HashOf(canary.Entry); canary.Unusable != nil {
				v.Reason, v.Message = CanaryUnusable, canary.Unusable.Error()
			}
		}
		verdicts = append(verdicts, v)
	}
	t.judged(verdicts)
}

// fail logs why a look failed, once.
func (t *Templates) fail(ctx context.Context, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && ctx.Err() == nil && errorText(err) != errorText(t.failure) {
		t.o.Logger.Error("templates cannot be read; those that were last read stay in force", "error", err)
	}
	t.failure = err
}

// logChanges says what is different in the set, entry by entry.
func (t *Templates) logChanges(before, after *templates.Set) {
	for _, e := range after.All() {
		old, _ := before.Find(e.Name)
		if e.Err != nil && errorText(e.Err) != errorText(old.Err) {
			t.o.Logger.Error("a template has an error", "template", e.Name, "lastGoodHash", hash(e.Template), "error", e.Err)
		}
		if now := after.HashOf(e); now != "" && now != before.HashOf(old) {
			t.o.Logger.Info("template in force", "template", e.Name, "hash", now)
		}
	}
	for _, e := range before.All() {
		if _, ok := after.Find(e.Name); !ok {
			t.o.Logger.Info("template is gone", "template", e.Name, "lastHash", hash(e.Template))
		}
	}
}
