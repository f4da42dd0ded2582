package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/templates"
)

// Options are what [New] needs. All fields are required but Named.
type Options struct {
	// Sources in the order of their precedence.
	Sources []Source
	// Compile has the prefix and the installer's values. Its Source and FirstLine are
	// filled in for each manifest.
	Compile templates.Options
	// Named reports whether namespaces name a template: then it stays in force when its
	// file is gone. Without it none stays.
	Named func(template string) bool
	// Logger hears of every change of the set, once.
	Logger *slog.Logger
}

// Templates is the set of templates in force. Make one with [New].
type Templates struct {
	sources []Source
	named   func(template string) bool
	logger  *slog.Logger
	set     atomic.Pointer[templates.Set]
	// namespaced are the templates of namespaces, nil if they are not served.
	namespaced *Namespaced

	mu sync.Mutex
	// keeping reports whether the set has templates that no source has.
	keeping  bool
	states   []SourceStatus
	units    [][]Unit
	compiler *compiler
	// served are the templates that the cluster is to have mirrors of, and mirrors those that it
	// has; nil while they are not known.
	served    []Served
	mirrors   []MirrorObject
	mirrored  []func(Mirrors)
	listeners []func(*templates.Set)
	judged    []func([]Verdict)
}

// SourceStatus is how a source is doing.
type SourceStatus struct {
	// Name is [Source.Name].
	Name string
	// Read reports whether the source has been read completely at least once.
	Read bool
	// Err is why it cannot be read now, and Note what is unusual. Nil and empty if
	// all is well.
	Err  error
	Note string
}

// New returns a store that is empty until [Templates.Run] runs.
func New(o Options) *Templates {
	t := &Templates{
		sources:  o.Sources,
		named:    o.Named,
		logger:   o.Logger,
		states:   make([]SourceStatus, len(o.Sources)),
		units:    make([][]Unit, len(o.Sources)),
		compiler: newCompiler(o.Compile),
	}
	if t.named == nil {
		t.named = func(string) bool { return false }
	}
	for i, s := range o.Sources {
		t.states[i].Name = s.Name()
	}
	t.set.Store(templates.NewSet(nil))
	return t
}

// OnChange calls f with each new set, from now on, in order and one at a time. f
// must return soon and must not call methods of t but [Templates.Snapshot]. Call
// it before Run.
func (t *Templates) OnChange(f func(*templates.Set)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listeners = append(t.listeners, f)
}

// OnVerdicts calls f with the verdicts on the objects of the cluster whenever any
// object changed, its status included. What [Templates.OnChange] says of f holds.
func (t *Templates) OnVerdicts(f func([]Verdict)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judged = append(t.judged, f)
}

// Run follows the sources until ctx ends, which is no error.
func (t *Templates) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for i, source := range t.sources {
		running.Go(func() {
			source.Run(ctx, func(r Report) { t.take(i, r) })
		})
	}
	running.Wait()
	if err := ctx.Err(); err == nil {
		return errors.New("following the templates: every source has ended")
	}
	return nil
}

// Snapshot returns the set in force. It is never nil, does not wait, and does not
// change afterwards.
func (t *Templates) Snapshot() *templates.Set { return t.withNamespaces(t.set.Load()) }

// Ready returns nil once every source has been read completely, and until then
// what is missing, in words. A source that fails later keeps what it had, which
// [Templates.Sources] tells, and stays ready.
func (t *Templates) Ready() error {
	var missing []string
	for _, s := range t.Sources() {
		switch {
		case s.Read:
		case s.Err != nil:
			missing = append(missing, fmt.Sprintf("templates of the %s: %v", s.Name, s.Err))
		default:
			missing = append(missing, fmt.Sprintf("templates of the %s: not read yet", s.Name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New(strings.Join(missing, "; "))
}

// State tells how current the templates of the cluster are. It reports false if there is no
// such source.
func (t *Templates) State() (state follow.State, ok bool) {
	for _, s := range t.sources {
		if cached, ok := s.(Cached); ok {
			return cached.State(), true
		}
	}
	return follow.State{}, false
}

// Sources tells how each source is doing, in their order.
func (t *Templates) Sources() []SourceStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.states)
}

// take makes a source's report part of the set.
func (t *Templates) take(i int, r Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := &t.states[i]
	t.logState(*state, r)
	state.Err, state.Note = r.Err, r.Note
	if r.Err != nil && r.Units == nil {
		return
	}
	t.units[i] = r.Units
	if r.Mirrors != nil {
		t.mirrors = r.Mirrors
	}
	state.Read = true
	t.assemble()
	t.sayMirrors()
}

// assemble makes the set anew from what the sources have.
func (t *Templates) assemble() {
	before := t.set.Load()
	assembled := t.compiler.assemble(slices.Concat(t.units...), before)
	after := t.keepNamed(before, assembled.set)
	t.served = served(assembled.served, t.served, assembled.set, after)
	for _, w := range assembled.warnings {
		t.logger.Warn("a template has a warning", "warning", w.String())
	}
	for _, f := range t.judged {
		f(assembled.verdicts)
	}
	t.keeping = after != assembled.set
	if slices.EqualFunc(after.All(), before.All(), sameEntry) {
		return
	}
	t.logChanges(before, after)
	t.set.Store(after)
	for _, f := range t.listeners {
		f(after)
	}
}

// logState says that a source changed its state, not that it is still in it.
func (t *Templates) logState(before SourceStatus, r Report) {
	switch {
	case r.Err != nil && errorText(r.Err) != errorText(before.Err):
		t.logger.Error("a source of templates cannot be read; its last templates stay in force", "source", before.Name, "error", r.Err)
	case r.Err == nil && before.Err != nil:
		t.logger.Info("a source of templates can be read again", "source", before.Name)
	}
	if r.Note != "" && r.Note != before.Note {
		t.logger.Info("source of templates: "+r.Note, "source", before.Name)
	}
}

// logChanges says what is different in the set, entry by entry.
func (t *Templates) logChanges(before, after *templates.Set) {
	for _, e := range after.All() {
		old, _ := before.Find(e.Name)
		if e.Err != nil && errorText(e.Err) != errorText(old.Err) {
			t.logger.Error("a template has an error", "template", e.Name, "lastGoodHash", hash(e.Template), "error", e.Err)
		}
		if now := after.HashOf(e); now != "" && now != before.HashOf(old) {
			t.logger.Info("template in force", "template", e.Name, "hash", now)
		}
	}
	for _, e := range before.All() {
		if _, ok := after.Find(e.Name); !ok {
			t.logger.Info("template is gone", "template", e.Name, "lastHash", hash(e.Template))
		}
	}
}

func sameEntry(a, b templates.Entry) bool {
	return a.Name == b.Name && a.Source == b.Source && a.Template == b.Template && errorText(a.Err) == errorText(b.Err) && broken(a.Err) == broken(b.Err)
}

// broken is what an error tells of its template: another one whenever the manifest
// was compiled anew.
func broken(err error) *templates.Template {
	var mistakes *templates.CompileError
	if errors.As(err, &mistakes) {
		return mistakes.Broken
	}
	return nil
}

func hash(t *templates.Template) string {
	if t == nil {
		return ""
	}
	return t.Hash()
}
