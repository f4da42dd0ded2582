package store

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

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
	watchers []func(Object)
}

// patch writes a status if the version is the newest, as an API server does.
func (s *stored) patch(name string, data []byte) error {
	var written struct {
		Metadata struct{ ResourceVersion string }
		Status   v1alpha1.SidecarTemplateStatus
	}
	if err := json.Unmarshal(data, &written); err != nil {
		return err
	}
	s.mu.Lock()
	s.attempts++
	if written.Metadata.ResourceVersion != s.object.ResourceVersion {
		defer s.mu.Unlock()
		return apierrors.NewConflict(schema.GroupResource{}, name, errors.New("it has changed"))
	}
	s.writes++
	s.mu.Unlock()
	s.change(func(o *Object) { o.Status = written.Status })
	return nil
}

// client returns a client whose patches are written.
func (s *stored) client() dynamic.Interface {
	c := fake.NewSimpleDynamicClient(runtime.NewScheme())
	c.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		return true, &unstructured.Unstructured{}, s.patch(patch.GetName(), patch.GetPatch())
	})
	return c
}

// named returns an object of a name.
func named(name string) Object { return Object{ObjectMeta: metav1.ObjectMeta{Name: name}} }

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
	w := NewStatusWriter(s.client(), slog.New(slog.DiscardHandler))
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
		s := &stored{object: named("a")}
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

func TestReplicasThatDisagreeDoNotFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: named("a")}
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
		s := &stored{object: Object{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 2}}}
		s.object.Status = Verdict{Object: Object{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, Hash: "h1", Reason: Compiled, Message: "ok"}.status()
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
