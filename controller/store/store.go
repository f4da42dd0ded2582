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
	// pause is the least time between two compilations: replicas write the status of each template, one after the
	// other. failedPause is that time after a failure.
	pause       = 100 * time.Millisecond
	failedPause = time.Second
	// readLimit bounds a read of a CRD.
	readLimit = 10 * time.Second
)

// Options are what [New] needs. All fields are required but BuiltIn.
type Options struct {
	// Client needs the verbs list and watch on SidecarTemplates, and get on their CRD.
	Client dynamic.Interface
	// Compile has the installer's values. Its Source is replaced for each object.
	Compile templates.Options
	// BuiltIn is a template of the program. An object with its name is not in force.
	BuiltIn *templates.Template
	Logger  *slog.Logger
}

// Templates compiles the SidecarTemplates, and has the set in force. [New] returns one.
type Templates struct {
	options Options
	objects *follower
	changed waiting.Wake
	set     atomic.Pointer[templates.Set]
	// namespaced are the templates of namespaces, nil if they are not served.
	namespaced *Namespaced
	listeners  []func(*templates.Set)
	onVerdicts func([]Verdict)

	// compiled has the objects as they were last compiled, by name. Only the goroutine of Run uses it.
	compiled map[string]*compiled
	state    templatesState
}

// templatesState is the state that the lock guards.
type templatesState struct {
	sync.Mutex
	// complete means that all objects have been compiled once.
	complete bool
	// failure is the error of the last compilation.
	failure error
}

// New returns a store that is empty until [Templates.Run] runs.
func New(o Options) *Templates {
	t := &Templates{options: o, changed: waiting.NewWake(), onVerdicts: func([]Verdict) {}, compiled: map[string]*compiled{}}
	t.objects = newFollower(o.Client, Resource, "templates", o.Logger, followerOptions{changed: func(string) { t.changed.Wake() }, filled: t.changed.Wake})
	t.set.Store(templates.NewSet(t.builtIn()))
	return t
}

func (t *Templates) builtIn() []templates.Entry {
	if t.options.BuiltIn == nil {
		return nil
	}
	return []templates.Entry{{Name: t.options.BuiltIn.Name(), Template: t.options.BuiltIn}}
}

// OnChange calls f with each new set, from now on, in order and one at a time. f must return soon and must not call
// methods of t but [Templates.Snapshot]. Call it before Run.
func (t *Templates) OnChange(f func(*templates.Set)) { t.listeners = append(t.listeners, f) }

// OnVerdicts calls f with the verdicts on all objects whenever an object or its status changed. f must return soon and
// must not call methods of t but [Templates.Snapshot]. Call it before Run.
func (t *Templates) OnVerdicts(f func([]Verdict)) { t.onVerdicts = f }

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

// Ready returns nil once all objects have been listed and compiled. Before that, the error says why they are not. Ready
// stays nil if the API server cannot be read later, because the set stays in force.
func (t *Templates) Ready() error {
	t.state.Lock()
	defer t.state.Unlock()
	if t.state.complete {
		return nil
	}
	if err := t.objects.listError(); err != nil {
		return err
	}
	if t.state.failure != nil {
		return t.state.failure
	}
	return errors.New("templates are not compiled yet")
}

// State returns how current the templates are.
func (t *Templates) State() follow.State { return t.objects.State() }

// compile compiles the cached objects and publishes the set. It returns an error if it cannot find out whether missing
// objects were deleted with their CRD.
func (t *Templates) compile(ctx context.Context) error {
	if !t.objects.HasSynced() {
		return nil
	}
	now := map[string]*compiled{}
	for _, o := range t.objects.objects() {
		c := compileObject(o, t.compiled[o.Name], t.options.Compile)
		if t.options.BuiltIn != nil && o.Name == t.options.BuiltIn.Name() {
			c = &compiled{Object: o, reason: NameTaken, err: errors.New("the name belongs to a template of Pillion's own, by which it proves that it works; choose another name, and delete this object")}
		}
		for _, w := range c.warnings {
			t.options.Logger.Warn("a template has a warning", "warning", w.String())
		}
		now[o.Name] = c
	}
	err := addLost(ctx, t.objects, now, t.compiled)
	t.fail(ctx, err)
	if err != nil {
		return err
	}
	t.compiled = now
	t.publish()
	return nil
}

// publish puts the compiled objects in force.
func (t *Templates) publish() {
	before, at := t.set.Load(), time.Now()
	entries := t.builtIn()
	for _, c := range t.compiled {
		if c.reason != NameTaken {
			was, _ := before.Get(c.Name)
			entries = append(entries, c.entry(was, at))
		}
	}
	after := templates.NewSet(entries)
	t.reportVerdicts(after)
	if !slices.EqualFunc(after.All(), before.All(), sameEntry) {
		t.logChanges(before, after)
		t.set.Store(after)
		for _, f := range t.listeners {
			f(after)
		}
	}
	t.state.Lock()
	defer t.state.Unlock()
	t.state.complete = true
}

// reportVerdicts calls onVerdicts. A verdict on a canary depends on the stable template in the set.
func (t *Templates) reportVerdicts(set *templates.Set) {
	var verdicts []Verdict
	for _, c := range t.compiled {
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
	t.onVerdicts(verdicts)
}

// fail records the error of a compilation, and logs it once.
func (t *Templates) fail(ctx context.Context, err error) {
	t.state.Lock()
	defer t.state.Unlock()
	if err != nil && ctx.Err() == nil && errorText(err) != errorText(t.state.failure) {
		t.options.Logger.Error("templates cannot be read; those that were last read stay in force", "error", err)
	}
	t.state.failure = err
}

// logChanges logs each entry that differs in the new set.
func (t *Templates) logChanges(before, after *templates.Set) {
	for _, e := range after.All() {
		old, _ := before.Find(e.Name)
		if e.Err != nil && errorText(e.Err) != errorText(old.Err) {
			t.options.Logger.Error("a template has an error", "template", e.Name, "lastGoodHash", hash(e.Template), "error", e.Err)
		}
		if now := after.HashOf(e); now != "" && now != before.HashOf(old) {
			t.options.Logger.Info("template in force", "template", e.Name, "hash", now)
		}
	}
	for _, e := range before.All() {
		if _, ok := after.Find(e.Name); !ok {
			t.options.Logger.Info("template is gone", "template", e.Name, "lastHash", hash(e.Template))
		}
	}
}
