package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/logtest"
	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
)

// manifest returns a good template that adds one label.
func manifest(name, value string) string {
	return fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: %s}\nspec:\n  inject:\n    metadata:\n      labels: {value: %q}\n", name, value)
}

// badManifest returns a template of that name that does not compile.
func badManifest(name string) string {
	return strings.Replace(manifest(name, "x"), "labels:", "lables:", 1)
}

// value returns what the template in force under a name adds, "-" if there is none.
func value(t *testing.T, set *templates.Set, name string) string {
	t.Helper()
	e, ok := set.Get(name)
	if !ok || e.Template == nil {
		return "-"
	}
	r, err := e.Template.Render(t.Context(), templates.Input{
		Pod: map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"containers": []any{map[string]any{"name": "app"}}}},
	})
	if err != nil {
		t.Fatalf("rendering %s: %v", name, err)
	}
	return r.Fragment.Field("metadata", "labels", "value").Value.(string)
}

func errText(set *templates.Set, name string) string {
	e, _ := set.Get(name)
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func names(set *templates.Set) []string {
	got := []string{}
	for _, e := range set.All() {
		got = append(got, e.Name)
	}
	return got
}

// scripted is a source that reports what a test tells it to.
type scripted struct {
	name    string
	reports chan store.Report
}

func newScripted(name string) *scripted {
	return &scripted{name: name, reports: make(chan store.Report)}
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Run(ctx context.Context, report func(store.Report)) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.reports:
			report(r)
		}
	}
}

// has reports units of alternating source and text, and waits until that is done.
func (s *scripted) has(parts ...string) {
	var r store.Report
	for i := 0; i < len(parts); i += 2 {
		r.Units = append(r.Units, store.Unit{Source: parts[i], Data: []byte(parts[i+1])})
	}
	s.reports <- r
	synctest.Wait()
}

func (s *scripted) fails(err error) {
	s.reports <- store.Report{Err: err}
	synctest.Wait()
}

// running starts a live set in a bubble and ends it with the test.
func running(t *testing.T, sources ...store.Source) (*store.Templates, *logtest.Log) {
	t.Helper()
	log := &logtest.Log{}
	l := store.New(store.Options{Sources: sources, Compile: templates.Options{Prefix: "pillion.dev"}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	start(t, l)
	return l, log
}

func start(t *testing.T, l *store.Templates) {
	t.Helper()
	runtest.Start(t, l.Run)
	synctest.Wait()
}

func TestSetIsEmptyAndNotReadyBeforeTheFirstReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("first"), newScripted("second")
		l, _ := running(t, a, b)
		if got := names(l.Snapshot()); len(got) != 0 {
			t.Errorf("the set has %v before any report", got)
		}
		if err := l.Ready(); err == nil || err.Error() != "templates of the first: not read yet; templates of the second: not read yet" {
			t.Errorf("Ready() = %v", err)
		}
		a.has("a", manifest("one", "1"))
		b.fails(errors.New("no such thing"))
		if err := l.Ready(); err == nil || err.Error() != "templates of the second: no such thing" {
			t.Errorf("Ready() = %v", err)
		}
		b.has()
		if err := l.Ready(); err != nil {
			t.Errorf("Ready() = %v after every source has reported", err)
		}
		b.fails(errors.New("no such thing"))
		if err := l.Ready(); err != nil {
			t.Errorf("Ready() = %v: a source that fails later must not take readiness away", err)
		}
		if s := l.Sources()[1]; s.Err == nil || !s.Read {
			t.Errorf("the status does not tell that the second source fails: %+v", s)
		}
	})
}

func TestBadManifestNeverReplacesAGoodOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted("files")
		l, log := running(t, s)
		s.has("a", manifest("one", "good"), "b", manifest("two", "good"))
		for round, bad := range []string{badManifest("one"), "{not: [yaml", "", "# nothing\n", "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\n"} {
			s.has("a", bad, "b", manifest("two", fmt.Sprint("v", round)))
			if got := value(t, l.Snapshot(), "one"); got != "good" {
				t.Errorf("after %q: template one gives %q; want the last good one", bad, got)
			}
			if got := errText(l.Snapshot(), "one"); !strings.Contains(got, "a") || got == "" {
				t.Errorf("after %q: the error is %q; want one that names the unit", bad, got)
			}
			if got := value(t, l.Snapshot(), "two"); got != fmt.Sprint("v", round) {
				t.Errorf("after %q: another template does not change with it: %q", bad, got)
			}
		}
		s.has("a", manifest("one", "better"), "b", manifest("two", "good"))
		if got := value(t, l.Snapshot(), "one"); got != "better" || errText(l.Snapshot(), "one") != "" {
			t.Errorf("a good manifest gives %q, error %q", got, errText(l.Snapshot(), "one"))
		}
		if log.Count("level=ERROR") == 0 {
			t.Error("no error was logged")
		}
	})
}

func TestBadManifestWithNoGoodOneBeforeIsAnEntryWithoutTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted("files")
		l, log := running(t, s)
		s.has("a.yaml", badManifest("one"), "b.yaml", "{not: [yaml")
		if diff := cmp.Diff([]string{"b.yaml", "one"}, names(l.Snapshot())); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		for _, e := range l.Snapshot().All() {
			if e.Template != nil || e.Err == nil {
				t.Errorf("entry %+v; want an error and no template", e)
			}
		}
		s.has("a.yaml", badManifest("one"), "b.yaml", "{not: [yaml")
		if got := log.Count("level=ERROR"); got != 2 {
			t.Errorf("%d errors were logged; want each of the two once", got)
		}
	})
}

func TestWhatASourceNoLongerHasIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted("files")
		l, _ := running(t, s)
		s.has("a", manifest("one", "1")+"---\n"+manifest("two", "2"), "b", manifest("three", "3"))
		s.has("a", manifest("two", "2"))
		if diff := cmp.Diff([]string{"two"}, names(l.Snapshot())); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		s.has("a", manifest("renamed", "2"))
		if diff := cmp.Diff([]string{"renamed"}, names(l.Snapshot())); diff != "" {
			t.Errorf("entries after a rename (-want +got):\n%s", diff)
		}
		s.has()
		if got := names(l.Snapshot()); len(got) != 0 {
			t.Errorf("entries after everything was deleted: %v", got)
		}
	})
}

func TestUnreadableFileKeepsAllItsTemplatesForAsLongAsItIsUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted("files")
		l, _ := running(t, s)
		s.has("a", manifest("one", "1")+"---\n"+manifest("two", "2"))
		for _, broken := range []string{manifest("one", "1b") + "---\n{half", "{half", "{other half", ""} {
			s.has("a", broken)
			if diff := cmp.Diff([]string{"one", "two"}, names(l.Snapshot())); diff != "" {
				t.Errorf("entries after %q (-want +got):\n%s", broken, diff)
			}
			if got := value(t, l.Snapshot(), "two"); got != "2" || errText(l.Snapshot(), "two") == "" {
				t.Errorf("after %q: two gives %q, error %q", broken, got, errText(l.Snapshot(), "two"))
			}
		}
		if got := value(t, l.Snapshot(), "one"); got != "1b" {
			t.Errorf("one gives %q; want its last good version", got)
		}
		s.has("a", "{half", "b", manifest("two", "moved"))
		if got := value(t, l.Snapshot(), "two"); got != "moved" || errText(l.Snapshot(), "two") != "" {
			t.Errorf("a template that moved to a readable file gives %q, error %q", got, errText(l.Snapshot(), "two"))
		}
		s.has("a", manifest("one", "1c"))
		if diff := cmp.Diff([]string{"one"}, names(l.Snapshot())); diff != "" {
			t.Errorf("entries when the file can be read again (-want +got):\n%s", diff)
		}
	})
}

func TestNameBelongsToTheFirstSourceThatHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, cluster := newScripted("files"), newScripted("cluster")
		l, _ := running(t, files, cluster)
		cluster.has("SidecarTemplate/one", manifest("one", "cluster"))
		if got := value(t, l.Snapshot(), "one"); got != "cluster" {
			t.Errorf("alone, the cluster's template gives %q", got)
		}
		files.has("/t/one.yaml", manifest("one", "file"))
		if got := value(t, l.Snapshot(), "one"); got != "file" {
			t.Errorf("of a file and an object the one that counts gives %q; want the file", got)
		}
		if got, want := errText(l.Snapshot(), "one"), "SidecarTemplate/one: the name one is taken by /t/one.yaml:3, which is in force; rename or delete this one"; got != want {
			t.Errorf("the error is %q; want %q", got, want)
		}
		files.has("/t/one.yaml", badManifest("one"))
		if got := value(t, l.Snapshot(), "one"); got != "file" {
			t.Errorf("when the file goes bad the set gives %q; want its last good version", got)
		}
		files.has()
		if got := value(t, l.Snapshot(), "one"); got != "cluster" || errText(l.Snapshot(), "one") != "" {
			t.Errorf("without the file the set gives %q, error %q", got, errText(l.Snapshot(), "one"))
		}
	})
}

func TestTwoTemplatesOfOneNameAreAnErrorThatNamesBothPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newScripted("files")
		l, log := running(t, files)
		files.has("/t/a.yaml", manifest("one", "first")+"---\n"+manifest("two", "x")+"---\n"+manifest("one", "second"))
		if got, want := errText(l.Snapshot(), "one"), "/t/a.yaml:19: the name one is taken by /t/a.yaml:3, which is in force; rename or delete this one"; got != want {
			t.Errorf("in one file: the error is %q; want %q", got, want)
		}
		if got := value(t, l.Snapshot(), "one"); got != "first" {
			t.Errorf("in one file: the template gives %q; want the first", got)
		}
		if log.Count("the name one is taken by /t/a.yaml:3") != 1 {
			t.Error("the log does not say it once")
		}
		files.has("/t/a.yaml", manifest("two", "x")+"---\n"+manifest("one", "first"), "/t/b.yaml", manifest("one", "second"))
		if got, want := errText(l.Snapshot(), "one"), "/t/b.yaml:3: the name one is taken by /t/a.yaml:11, which is in force; rename or delete this one"; got != want {
			t.Errorf("in one folder: the error is %q; want %q", got, want)
		}
	})
}

func TestSourceThatCannotBeReadKeepsWhatItLastHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted("files")
		l, log := running(t, s)
		s.has("a", manifest("one", "1"))
		for range 3 {
			s.fails(errors.New("disk on fire"))
		}
		if got := value(t, l.Snapshot(), "one"); got != "1" {
			t.Errorf("the set gives %q", got)
		}
		if got := log.Count("disk on fire"); got != 1 {
			t.Errorf("the failure was logged %d times; want once", got)
		}
		s.has("a", manifest("one", "2"))
		if got := value(t, l.Snapshot(), "one"); got != "2" {
			t.Errorf("after recovery the set gives %q", got)
		}
	})
}

func TestOnlyWhatChangedIsCompiled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted("files")
		l, _ := running(t, s)
		s.has("a", manifest("one", "1"), "b", manifest("two", "2"))
		before := l.Snapshot()
		s.has("a", manifest("one", "1"), "b", manifest("two", "3"))
		for name, want := range map[string]bool{"one": true, "two": false} {
			old, _ := before.Get(name)
			now, _ := l.Snapshot().Get(name)
			if got := old.Template == now.Template; got != want {
				t.Errorf("template %s is the same as before: %v; want %v", name, got, want)
			}
		}
		if got := value(t, before, "two"); got != "2" {
			t.Errorf("an old snapshot changed: it gives %q", got)
		}
	})
}

func TestListenersHearOfChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted("files")
		l := store.New(store.Options{Sources: []store.Source{s}, Logger: slog.New(slog.DiscardHandler)})
		var heard [][]string
		l.OnChange(func(set *templates.Set) {
			if set != l.Snapshot() {
				t.Error("a listener gets another set than the one in force")
			}
			heard = append(heard, names(set))
		})
		start(t, l)
		s.has("a", manifest("one", "1"))
		s.has("a", manifest("one", "1"))
		s.has("a", manifest("one", "1"), "b", manifest("two", "2"))
		s.has("a", manifest("one", "1"), "b", badManifest("two"))
		s.fails(errors.New("gone"))
		s.has()
		if diff := cmp.Diff([][]string{{"one"}, {"one", "two"}, {"one", "two"}, {}}, heard); diff != "" {
			t.Errorf("sets heard of (-want +got):\n%s", diff)
		}
	})
}

func TestSnapshotsCanBeReadWhileTheSetChanges(t *testing.T) {
	s := newScripted("files")
	l := store.New(store.Options{Sources: []store.Source{s}, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = l.Run(ctx) })
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				if e, ok := l.Snapshot().Get("one"); ok && e.Template == nil {
					t.Error("an entry has no template")
				}
				_ = l.Ready()
			}
		})
	}
	for i := range 20 {
		s.reports <- store.Report{Units: []store.Unit{{Source: "a", Data: []byte(manifest("one", fmt.Sprint("v", i)))}}}
	}
	cancel()
	all.Wait()
}

func TestLibraryIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Library(nil, "environment", "fluent-bit")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		l, _ := running(t, s)
		if err := l.Ready(); err != nil {
			t.Errorf("Ready() = %v", err)
		}
		if diff := cmp.Diff([]string{"fluent-bit", "environment"}, names(l.Snapshot())); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it took %v of waiting", waited)
		}
	})
}

func TestUnknownLibraryTemplateIsAnErrorThatListsWhatThereIs(t *testing.T) {
	_, err := store.Library(nil, "fluent-bit", "fluentd")
	if err == nil || !strings.Contains(err.Error(), `"fluentd"`) || !strings.Contains(err.Error(), "cloud-sql-proxy, daprd, debug-toolbox, environment, fluent-bit") {
		t.Errorf("Library() error = %v", err)
	}
}

// cachedSource is a source whose cache is in a state.
type cachedSource struct {
	*scripted
	state atomic.Pointer[follow.State]
}

func (c *cachedSource) State() follow.State { return *c.state.Load() }

func TestASourceThatCannotBeReadIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &cachedSource{scripted: newScripted("cluster")}
		source.state.Store(&follow.State{})
		l, _ := running(t, source)
		source.has("one.yaml", manifest("one", "1"))
		source.state.Store(&follow.State{Err: errors.New("connection refused")})
		if err := l.Ready(); err != nil {
			t.Errorf("Ready() = %v while the API server cannot be read: all replicas would leave together", err)
		}
		if state, ok := l.State(); !ok || state.Err == nil {
			t.Errorf("State() = %+v, %v", state, ok)
		}
	})
}
