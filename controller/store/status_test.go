package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// stored is one object as an API server keeps it, with the replicas that watch it.
type stored struct {
	mu       sync.Mutex
	object   Object
	version  int
	writes   int
	attempts int
	err      error
	watchers []func(Object)
}

// patch writes a status if the version is the newest, as an API server does.
func (s *stored) patch(_ context.Context, name string, data []byte) error {
	var written struct {
		Metadata struct{ ResourceVersion string }
		Status   v1alpha1.SidecarTemplateStatus
	}
	if err := json.Unmarshal(data, &written); err != nil {
		return err
	}
	s.mu.Lock()
	s.attempts++
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	if written.Metadata.ResourceVersion != s.object.ResourceVersion {
		defer s.mu.Unlock()
		return apierrors.NewConflict(schema.GroupResource{}, name, errors.New("it has changed"))
	}
	s.writes++
	s.mu.Unlock()
	s.change(func(o *Object) { o.Status = written.Status })
	return nil
}

// change makes a new version, which every replica sees a little later.
func (s *stored) change(f func(*Object)) {
	s.mu.Lock()
	f(&s.object)
	s.version++
	s.object.ResourceVersion = strings.Repeat("i", s.version)
	seen := s.object
	s.mu.Unlock()
	for i, w := range s.watchers {
		go func() {
			time.Sleep(time.Duration(i+1) * time.Millisecond)
			w(seen)
		}()
	}
}

// status is the newest one.
func (s *stored) status() v1alpha1.SidecarTemplateStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.object.Status
}

func (s *stored) counts() (writes, attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, s.attempts
}

// replica runs a writer that says what judge says of the newest object it has seen.
func (s *stored) replica(t *testing.T, judge func(Object) Verdict) *StatusWriter {
	w := newStatusWriter(s.patch, slog.New(slog.DiscardHandler))
	w.Counted(map[string]int{"a": 0})
	var mu sync.Mutex
	newest := ""
	s.watchers = append(s.watchers, func(o Object) {
		mu.Lock()
		defer mu.Unlock()
		if len(o.ResourceVersion) > len(newest) {
			newest = o.ResourceVersion
			w.Observe("", []Verdict{judge(o)})
		}
	})
	runtest.Start(t, w.Run)
	return w
}

func saying(hash, reason, message string) func(Object) Verdict {
	return func(o Object) Verdict { return Verdict{Object: o, Hash: hash, Reason: reason, Message: message} }
}

func TestManyReplicasWriteOneStatusForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}}
		for range 20 {
			s.replica(t, saying("h1", Compiled, "ok"))
		}
		for generation := range int64(5) {
			s.change(func(o *Object) { o.Generation = generation + 1 })
			time.Sleep(2 * time.Second)
			if writes, _ := s.counts(); writes != int(generation)+1 {
				t.Errorf("%d writes after %d changes", writes, generation+1)
			}
		}
		time.Sleep(time.Hour)
		writes, attempts := s.counts()
		if writes != 5 || attempts > 25 {
			t.Errorf("%d writes and %d attempts by 20 replicas for 5 changes", writes, attempts)
		}
		got := s.status()
		ready := meta.FindStatusCondition(got.Conditions, Ready)
		if got.ObservedGeneration != 5 || got.Hash != "h1" || ready == nil || ready.Status != metav1.ConditionTrue || ready.Reason != Compiled || ready.ObservedGeneration != 5 || ready.LastTransitionTime.IsZero() {
			t.Errorf("the status is %+v", got)
		}
	})
}

func TestTheNumberOfNamespacesIsWrittenSeldomAndByOneReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}}
		var all []*StatusWriter
		for range 20 {
			all = append(all, s.replica(t, saying("h1", Compiled, "ok")))
		}
		count := func(n int) {
			for _, w := range all {
				w.Counted(map[string]int{"a": n})
			}
		}
		shows := func() int64 {
			if n := s.status().Namespaces; n != nil {
				return *n
			}
			return -1
		}
		count(7)
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Second)
		if writes, _ := s.counts(); writes != 1 || shows() != 7 {
			t.Errorf("%d writes, the status shows %d", writes, shows())
		}
		for n := range 600 { // namespaces come for a minute
			count(8 + n)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(countPause + time.Second)
		if writes, _ := s.counts(); writes > 1+60/5+2 || writes < 8 || shows() != 607 {
			t.Errorf("%d writes in a minute, the status shows %d", writes, shows())
		}
		before, _ := s.counts()
		time.Sleep(time.Hour)
		if writes, _ := s.counts(); writes != before {
			t.Errorf("%d writes without a change", writes-before)
		}
		count(1) // the last change is long ago
		time.Sleep(time.Second)
		if shows() != 1 {
			t.Errorf("a second later the status shows %d", shows())
		}
	})
}

func TestAStatusWaitsALittleForTheNumberOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}}
		w := s.replica(t, saying("h1", Compiled, "ok"))
		w.Counted(nil)
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Second)
		if writes, _ := s.counts(); writes != 0 {
			t.Errorf("%d writes before it is counted", writes)
		}
		time.Sleep(2 * time.Second)
		if got := s.status(); got.Hash != "h1" || got.Namespaces != nil {
			t.Errorf("without a number the status is %+v", got)
		}
	})
}

func TestManyNumbersAreWrittenOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, written := time.Now(), map[string]time.Duration{}
		w := newStatusWriter(func(_ context.Context, name string, _ []byte) error {
			written[name] = time.Since(began)
			return nil
		}, slog.New(slog.DiscardHandler))
		var all []Verdict
		counts := map[string]int{}
		for i := range 100 {
			name := fmt.Sprint("t", i)
			counts[name] = 5
			v := Verdict{Object: Object{Name: name, Generation: 1}, Hash: "h", Reason: Compiled, Message: "ok"}
			v.Object.Status = v.status()
			all = append(all, v)
		}
		w.Observe("", all)
		w.Counted(counts)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		inSecond := map[int]int{}
		for _, at := range written {
			inSecond[int(at.Seconds())]++
		}
		for second, n := range inSecond {
			if n > 2*countsPerSecond {
				t.Errorf("%d in second %d", n, second)
			}
		}
		if len(written) != 100 {
			t.Errorf("%d of 100 are written in 25 s", len(written))
		}
	})
}

func TestANumberOfNamespacesIsKeptWhereItIsNotKnown(t *testing.T) {
	for reason, want := range map[string]int64{Compiled: 9, CompileFailed: 4, NameTaken: 0} {
		shown := int64(4)
		v := Verdict{Object: Object{Name: "a", Status: v1alpha1.SidecarTemplateStatus{Namespaces: &shown}}, Reason: reason}
		v.count(9, true)
		if got := v.status().Namespaces; got == nil || *got != want {
			t.Errorf("%s: %v, want %d", reason, got, want)
		}
	}
}

func TestAStatusThatSomebodyEditsIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}}
		s.replica(t, saying("h1", Compiled, "ok"))
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Second)
		s.change(func(o *Object) { o.Status = v1alpha1.SidecarTemplateStatus{} })
		time.Sleep(time.Minute)
		if got := s.status(); got.Hash != "h1" {
			t.Errorf("the status is %+v", got)
		}
	})
}

func TestReplicasThatDisagreeDoNotFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}}
		s.replica(t, saying("h1", Compiled, "ok"))
		s.replica(t, saying("h2", Compiled, "ok"))
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Hour)
		if writes, _ := s.counts(); writes < 2 || writes > 25 {
			t.Errorf("%d writes within an hour", writes)
		}
	})
}

func TestATemplateThatBreaksKeepsItsHashAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a", Generation: 2}}
		s.object.Status = Verdict{Object: Object{Generation: 1}, Hash: "h1", Reason: Compiled, Message: "ok"}.status()
		s.object.Status.Conditions = append(s.object.Status.Conditions, metav1.Condition{Type: "Reviewed", Status: metav1.ConditionTrue})
		s.replica(t, saying("", CompileFailed, strings.Repeat("é", 50_000)))
		s.change(func(*Object) {})
		time.Sleep(time.Second)
		got := s.status()
		ready := meta.FindStatusCondition(got.Conditions, Ready)
		if got.Hash != "h1" || got.ObservedGeneration != 2 || ready.Status != metav1.ConditionFalse || ready.Reason != CompileFailed || len(ready.Message) > 32768 {
			t.Errorf("hash %q, generation %d, %s %s with a message of %d bytes", got.Hash, got.ObservedGeneration, ready.Status, ready.Reason, len(ready.Message))
		}
		if meta.FindStatusCondition(got.Conditions, "Reviewed") == nil {
			t.Error("somebody else's condition is gone")
		}
	})
}

func TestAMissingPermissionForTheStatusIsNamedOnceAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}, err: apierrors.NewForbidden(schema.GroupResource{Resource: Resource}, "a", errors.New("no"))}
		var log strings.Builder
		w := newStatusWriter(s.patch, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		w.Observe("", []Verdict{saying("h", Compiled, "ok")(Object{Name: "a", Generation: 1})})
		time.Sleep(10 * time.Minute)
		cancel()
		<-done
		if n := strings.Count(log.String(), "missing permission: the verb patch on sidecartemplates/status"); n != 1 {
			t.Errorf("said %d times:\n%s", n, &log)
		}
		if _, attempts := s.counts(); attempts < 3 {
			t.Errorf("%d attempts", attempts)
		}
	})
}

func TestABrokenTemplateThatMatchesOtherPodsIsAChange(t *testing.T) {
	const bad = "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: a}\nspec: {match: {podSelector: {matchLabels: {a: VALUE}}}, inject: {spec: {nodeNam: x}}}\n"
	l := New(Options{Logger: slog.New(slog.DiscardHandler)})
	l.states, l.units = make([]SourceStatus, 1), make([][]Unit, 1)
	matches := func(value string) string {
		l.take(0, Report{Units: []Unit{{Source: "a.yaml", Data: []byte(strings.ReplaceAll(bad, "VALUE", value))}}})
		e, _ := l.Snapshot().Get("a")
		_, pod, _ := broken(e.Err).Match()
		return pod.String()
	}
	if one, two := matches("one"), matches("two"); one != "a=one" || two != "a=two" {
		t.Errorf("it matches %s, then %s", one, two)
	}
}

func TestObjectsAreJudgedByWhatBecameOfThem(t *testing.T) {
	const good = "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: NAME}\nspec: {inject: {metadata: {labels: {a: b}}}}\n"
	unit := func(name, text string) Unit {
		return Unit{Source: "SidecarTemplate/" + name, Data: []byte(strings.ReplaceAll(text, "NAME", name)), Object: &Object{Name: name, Generation: 7}}
	}
	l := New(Options{Logger: slog.New(slog.DiscardHandler)})
	l.states, l.units = make([]SourceStatus, 1), make([][]Unit, 1)
	got := map[string]Verdict{}
	l.OnVerdicts(func(all []Verdict) {
		for _, v := range all {
			got[v.Object.Name] = v
		}
	})
	l.take(0, Report{Units: []Unit{
		{Source: "/t/taken.yaml", Data: []byte(strings.ReplaceAll(good, "NAME", "taken"))},
		unit("bad", strings.Replace(good, "inject", "injec", 1)), unit("good", good), unit("taken", good),
	}})
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"bad", "good", "taken"}) {
		t.Fatalf("verdicts on %v", names)
	}
	if v := got["good"]; v.Reason != Compiled || len(v.Hash) != 16 || v.Object.Generation != 7 {
		t.Errorf("good: %+v", v)
	}
	if v := got["bad"]; v.Reason != CompileFailed || v.Hash != "" || !strings.Contains(v.Message, "did you mean inject?") {
		t.Errorf("bad: %+v", v)
	}
	if v := got["taken"]; v.Reason != NameTaken || !strings.Contains(v.Message, "is taken by /t/taken.yaml") {
		t.Errorf("taken: %+v", v)
	}
}
