package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/faults"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// Every pace a pod is sent to a namespace of each of the four kinds: thirty a second in all.
const pace = time.Second * 4 / 30

// A pod that is refused is tried again, each time after twice the time, as a controller does.
const firstRetry, lastRetry = 100 * time.Millisecond, 5 * time.Second

// workloads is how many workloads of each namespace the pods belong to.
const workloads = 10

// inEarnest is which share of the pods are created and deleted again. The others are dry runs:
// API servers call the same entries for them. Pillion notes refusals of the former only.
const inEarnest = 4

// load creates pods and keeps what became of them.
type load struct {
	clients []kubernetes.Interface // one for each API server

	mu       sync.Mutex
	pods     []Pod           // attempts that are not judged yet
	took     []time.Duration // from the first attempt of each pod until it was admitted
	attempts int
	waiting  map[int]string // pods that are not admitted, and what became of the last attempt
	next     int
}

// stream sends pods to a namespace until ctx ends, and returns when all are admitted or until ends.
func (l *load) stream(ctx, until context.Context, kind Kind, namespace string) {
	var all sync.WaitGroup
	measure.Every(ctx, pace, func() {
		all.Go(func() { l.admit(until, kind, namespace) })
	})
	all.Wait()
}

// admit tries to create one pod until it is admitted.
func (l *load) admit(ctx context.Context, kind Kind, namespace string) {
	l.mu.Lock()
	id := l.next
	l.next++
	l.waiting[id] = "not answered"
	l.mu.Unlock()
	began := time.Now()
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		p, admitted := l.try(ctx, kind, namespace, id)
		if ctx.Err() != nil {
			return // nobody waits for it any more
		}
		l.mu.Lock()
		l.attempts++
		l.pods = append(l.pods, p)
		if admitted {
			delete(l.waiting, id)
			l.took = append(l.took, time.Since(began))
			l.mu.Unlock()
			return
		}
		l.waiting[id] = fmt.Sprintf("in %s since %s: %s%s%s", namespace, began.Format(clock), p.Unanswered, p.Denied, p.Elsewhere)
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry + rand.N(retry/10)):
		}
	}
}

// try makes one attempt, through the API servers in turn.
func (l *load) try(ctx context.Context, kind Kind, namespace string, id int) (p Pod, admitted bool) {
	ctx, cancel := context.WithTimeout(ctx, faults.Patience)
	defer cancel()
	pod := measure.ReplicaSetPod()
	pod.OwnerReferences = nil // there is no such ReplicaSet
	pod.GenerateName = fmt.Sprintf("web-%d-", id%workloads)
	var options metav1.CreateOptions
	if id%inEarnest > 0 {
		options.DryRun = []string{metav1.DryRunAll}
	}
	l.mu.Lock()
	pods := l.clients[(id+l.attempts)%len(l.clients)].CoreV1().Pods(namespace)
	l.mu.Unlock()
	p = Pod{Kind: kind, Namespace: namespace, Began: time.Now()}
	created, err := pods.Create(ctx, pod, options)
	p.Ended = time.Now()
	if err != nil {
		p.Unanswered, p.Denied, p.Elsewhere = classify(err)
		return p, false
	}
	p.look(created)
	if len(options.DryRun) == 0 {
		// What is left is removed at the end.
		_ = pods.Delete(ctx, created.Name, *metav1.NewDeleteOptions(0))
	}
	return p, true
}

// look notes what the created pod has of Pillion's.
func (p *Pod) look(created *corev1.Pod) {
	p.Sidecars = map[string]string{}
	for _, name := range []string{askedTemplate, selectingTemplate} {
		if c := measure.Container(created, name); c != nil {
			p.Sidecars[name] = "none"
			for _, e := range c.Env {
				if e.Name == versionVariable {
					p.Sidecars[name] = e.Value
				}
			}
		}
	}
	p.Touched = created.Annotations[statusAnnotation] != ""
}

// classify says why a creation failed.
func classify(err error) (unanswered, denied, elsewhere string) {
	refused, otherwise, away := faults.Classify(err)
	switch {
	case away || otherwise != "":
		return "", "", err.Error()
	case apierrors.IsInternalError(err) || strings.Contains(refused, "failed calling webhook"):
		return refused, "", ""
	}
	return "", refused, ""
}

// take returns the attempts since the last time.
func (l *load) take() []Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	pods := l.pods
	l.pods = nil
	return pods
}
