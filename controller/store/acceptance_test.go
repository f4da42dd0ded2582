package store

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// acceptance is an API server that a StatusWriter asks whether it accepts the pods of a template.
type acceptance struct {
	mu     sync.Mutex
	status metav1.ConditionStatus
	reason string
	asked  int
}

// set changes what the API server answers.
func (a *acceptance) set(status metav1.ConditionStatus, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.reason = status, reason
}

// condition counts the question and returns the answer.
func (a *acceptance) condition(context.Context, *templates.Template) metav1.Condition {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return metav1.Condition{Status: a.status, Reason: a.reason, Message: "as it says"}
}

// times returns how often the API server was asked.
func (a *acceptance) times() int { a.mu.Lock(); defer a.mu.Unlock(); return a.asked }

// accepting runs a StatusWriter beside an API server that answers with the status and the reason.
func (s *stored) accepting(t *testing.T, judge func(Object) Verdict, status metav1.ConditionStatus, reason string) *acceptance {
	t.Helper()
	template := templatestest.Compile(t, "{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: a}, spec: {inject: {metadata: {labels: {a: b}}}}}")
	api := &acceptance{status: status, reason: reason}
	w := NewStatusWriter(s.client(), slog.New(slog.DiscardHandler))
	w.Acceptance = api.condition
	s.watchers = append(s.watchers, func(o Object) {
		v := judge(o)
		if v.Reason == Compiled {
			v.Template = template
		}
		w.Observe("", []Verdict{v})
	})
	runtest.Start(t, w.Run)
	return api
}

func TestTheStatusSaysOnceForEachVersionWhetherAPIServersAcceptThePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: named("a")}
		api := s.accepting(t, saying("h1", Compiled, "ok"), metav1.ConditionFalse, Invalid)
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Hour)
		got := meta.FindStatusCondition(s.status().Conditions, Accepted)
		if writes, _ := s.counts(); api.times() != 1 || writes != 1 || got == nil || got.Status != metav1.ConditionFalse || got.Reason != Invalid || got.ObservedGeneration != 1 || got.Message != "as it says" {
			t.Errorf("asked %d times, %d writes: %+v", api.times(), writes, got)
		}
		api.set(metav1.ConditionTrue, Valid)
		s.change(func(o *Object) { o.Generation = 2 })
		time.Sleep(time.Hour)
		if got := meta.FindStatusCondition(s.status().Conditions, Accepted); api.times() != 2 || got.Status != metav1.ConditionTrue || got.ObservedGeneration != 2 {
			t.Errorf("another version: asked %d times: %+v", api.times(), got)
		}
	})
}

func TestAnAPIServerThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: named("a")}
		api := s.accepting(t, saying("h1", Compiled, "ok"), metav1.ConditionUnknown, NoAnswer)
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Hour)
		if writes, _ := s.counts(); api.times() < 5 || api.times() > 20 || writes != 1 {
			t.Errorf("asked %d times within an hour, %d writes", api.times(), writes)
		}
		api.set(metav1.ConditionTrue, Valid)
		time.Sleep(time.Hour)
		before := api.times()
		time.Sleep(time.Hour)
		if got := meta.FindStatusCondition(s.status().Conditions, Accepted); got.Status != metav1.ConditionTrue || api.times() != before {
			t.Errorf("after it answers it is asked %d times more: %+v", api.times()-before, got)
		}
	})
}
