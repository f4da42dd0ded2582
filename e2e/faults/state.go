package faults

import (
	"context"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// settle is how long after a change a pod may be treated as before it: what is promised of a
// change, and so what may still be under way.
const settle = time.Second

// A History is whether something was so at each time. Its zero value is false all the time.
type History struct {
	began, ended []time.Time // of each change
	values       []bool
}

// Set says that it is so, or not, from then on.
func (h *History) Set(at time.Time, value bool) { h.Change(at, at, value) }

// Change says that it became so, or not, at some time between the two.
func (h *History) Change(began, ended time.Time, value bool) {
	if n := len(h.values); n > 0 && h.values[n-1] == value || n == 0 && !value {
		return
	}
	h.began, h.ended, h.values = append(h.began, began), append(h.ended, ended), append(h.values, value)
}

// Always reports whether it was value from a moment before from until to.
func (h *History) Always(value bool, from, to time.Time) bool {
	now := false // before the first change
	for i, began := range h.began {
		if began.After(to) {
			break
		}
		if h.ended[i].After(from.Add(-settle)) && (now != value || h.values[i] != value) {
			return false
		}
		now = h.values[i]
	}
	return now == value
}

// state is what API servers know of the namespaces, of Pillion's entry for those that fail
// closed, and what was last said of the template in the cluster.
type state struct {
	mu        sync.Mutex
	labelled  map[string]*History // by namespace: it has the label of one that fails closed
	entry     History             // API servers have an entry for such namespaces
	suspended History             // the template in the cluster is suspended
}

func newState() *state { return &state{labelled: map[string]*History{}} }

// closed reports whether the namespace failed closed all the time.
func (s *state) closed(namespace string, from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.labelled[namespace]
	return h != nil && h.Always(true, from, to) && s.entry.Always(true, from, to)
}

// template reports whether pods have to have the template's sidecar, or must not have it;
// neither while that changes.
func (s *state) template(from, to time.Time) (must, mustNot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended.Always(false, from, to), s.suspended.Always(true, from, to)
}

// suspend says that a command that began then has suspended the template, or not.
func (s *state) suspend(began time.Time, value bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended.Change(began, time.Now(), value)
}

// follow keeps the state until ctx ends.
func (s *state) follow(ctx context.Context, client kubernetes.Interface) {
	var all sync.WaitGroup
	all.Go(func() {
		measure.Follow(ctx, "", client.CoreV1().Namespaces().Watch, func(e watch.Event) {
			if ns, ok := e.Object.(*corev1.Namespace); ok {
				s.seeNamespace(ns.Name, e.Type != watch.Deleted && ns.Labels[injectionLabel] == closedValue)
			}
		})
	})
	all.Go(func() {
		measure.Follow(ctx, ground.Release, client.AdmissionregistrationV1().MutatingWebhookConfigurations().Watch, func(e watch.Event) {
			c, ok := e.Object.(*admissionregistrationv1.MutatingWebhookConfiguration)
			if !ok {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.entry.Set(time.Now(), e.Type != watch.Deleted && slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
				return w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Fail
			}))
		})
	})
	all.Wait()
}

func (s *state) seeNamespace(name string, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.labelled[name] == nil {
		s.labelled[name] = &History{}
	}
	s.labelled[name].Set(time.Now(), closed)
}
