package store

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// accepting runs a replica in which an API server answers so, and returns how often it was asked.
func (s *stored) accepting(t *testing.T, judge func(Object) Verdict, answer func() (metav1.ConditionStatus, string)) *int {
	t.Helper()
	template := templatestest.Compile(t, "{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: a}, spec: {inject: {metadata: {labels: {a: b}}}}}")
	asked := 0
	w := newStatusWriter(s.patch, slog.New(slog.DiscardHandler))
	w.Acceptance = func(context.Context, *templates.Template) metav1.Condition {
		asked++
		status, reason := answer()
		return metav1.Condition{Status: status, Reason: reason, Message: "as it says"}
	}
	w.Counted(map[string]int{"a": 0})
	s.watchers = append(s.watchers, func(o Object) {
		v := judge(o)
		if v.Reason == Compiled {
			v.Template = template
		}
		w.Observe("", []Verdict{v})
	})
	runtest.Start(t, w.Run)
	return &asked
}

func TestTheStatusSaysOnceForEachVersionWhetherAPIServersAcceptThePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}}
		status, reason := metav1.ConditionFalse, Invalid
		asked := s.accepting(t, saying("h1", Compiled, "ok"), func() (metav1.ConditionStatus, string) { return status, reason })
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Hour)
		got := meta.FindStatusCondition(s.status().Conditions, Accepted)
		if writes, _ := s.counts(); *asked != 1 || writes != 1 || got == nil || got.Status != metav1.ConditionFalse || got.Reason != Invalid || got.ObservedGeneration != 1 || got.Message != "as it says" {
			t.Errorf("asked %d times, %d writes: %+v", *asked, writes, got)
		}
		status, reason = metav1.ConditionTrue, Valid
		s.change(func(o *Object) { o.Generation = 2 })
		time.Sleep(time.Hour)
		if got := meta.FindStatusCondition(s.status().Conditions, Accepted); *asked != 2 || got.Status != metav1.ConditionTrue || got.ObservedGeneration != 2 {
			t.Errorf("another version: asked %d times: %+v", *asked, got)
		}
	})
}

func TestAnAPIServerThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}}
		status, reason := metav1.ConditionUnknown, NoAnswer
		asked := s.accepting(t, saying("h1", Compiled, "ok"), func() (metav1.ConditionStatus, string) { return status, reason })
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Hour)
		if writes, _ := s.counts(); *asked < 5 || *asked > 20 || writes != 1 {
			t.Errorf("asked %d times within an hour, %d writes", *asked, writes)
		}
		status, reason = metav1.ConditionTrue, Valid
		time.Sleep(time.Hour)
		before := *asked
		time.Sleep(time.Hour)
		if got := meta.FindStatusCondition(s.status().Conditions, Accepted); got.Status != metav1.ConditionTrue || *asked != before {
			t.Errorf("after it answers it is asked %d times more: %+v", *asked-before, got)
		}
	})
}

// A version that does not compile gives no pods of which an API server could say anything.
func TestAVersionThatDoesNotCompileIsNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stored{object: Object{Name: "a"}}
		verdict := saying("h1", Compiled, "ok")
		asked := s.accepting(t, func(o Object) Verdict { return verdict(o) }, func() (metav1.ConditionStatus, string) { return metav1.ConditionTrue, Valid })
		s.change(func(o *Object) { o.Generation = 1 })
		time.Sleep(time.Minute)
		verdict = saying("", CompileFailed, "no")
		s.change(func(o *Object) { o.Generation = 2 })
		time.Sleep(time.Hour)
		if got := meta.FindStatusCondition(s.status().Conditions, Accepted); got != nil || *asked != 1 {
			t.Errorf("asked %d times: %+v", *asked, got)
		}
	})
}
