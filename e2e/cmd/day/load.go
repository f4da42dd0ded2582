package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

const (
	// makers is how many pods are made at the same time, and alive how many of its own each of
	// them leaves.
	makers, alive = 16, 50
	// One in so many namespaces has pods that name a template that does not exist.
	mistakes = 100
)

// load makes and deletes the pods of a day.
type load struct {
	cluster *measure.Cluster
	plan    plan
	due     []time.Duration
	// now is the number of the last pod that was sent.
	now     atomic.Int64
	samples []sample

	mu                 sync.Mutex
	took               []time.Duration
	failed, uninjected int
}

// run makes each pod when it is due, or as soon as it can after that, and returns when all are
// deleted.
func (l *load) run(ctx context.Context) error {
	numbers := make(chan int)
	var making, sampling sync.WaitGroup
	for range makers {
		making.Go(func() {
			var made []*corev1.Pod
			for number := range numbers {
				if pod := l.create(ctx, number); pod != nil {
					made = append(made, pod)
				}
				if len(made) > alive {
					l.remove(ctx, made[0])
					made = made[1:]
				}
			}
			for _, pod := range made {
				l.remove(ctx, pod)
			}
		})
	}
	measured, stop := context.WithCancel(ctx)
	sampling.Go(func() { l.sample(measured) })
	began := time.Now()
	for number, due := range l.due {
		time.Sleep(time.Until(began.Add(due)))
		if ctx.Err() != nil {
			break
		}
		if number%10_000 == 0 {
			fmt.Printf("%d of %d pods after %.1f s\n", number, len(l.due), time.Since(began).Seconds())
		}
		numbers <- number
		l.now.Store(int64(number))
	}
	stop()
	sampling.Wait()
	close(numbers)
	making.Wait()
	return context.Cause(ctx)
}

// create makes a pod, and returns it unless it was refused.
func (l *load) create(ctx context.Context, number int) *corev1.Pod {
	// A step that shares no divisor with the number of namespaces goes through all of them.
	n := number * 7919 % l.plan.Namespaces
	pod := podOf()
	mistaken := n%mistakes == mistakes-1
	if mistaken {
		pod.Annotations = map[string]string{"pillion.dev/inject": "flunt-bit"}
	}
	began := time.Now()
	made, err := l.cluster.Client.CoreV1().Pods(measure.NamespaceName(n)).Create(ctx, pod, metav1.CreateOptions{})
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
	switch {
	case mistaken && err != nil && strings.Contains(err.Error(), "UnknownTemplate"):
		return nil
	case err != nil:
		l.fail(err)
		return nil
	case mistaken:
		l.fail("a pod asks for a template that does not exist, and was made")
	case measure.Container(made, "fluent-bit") == nil:
		l.uninjected++
	}
	return made
}

func (l *load) remove(ctx context.Context, pod *corev1.Pod) {
	now := int64(0)
	if err := l.cluster.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fail(err)
	}
}

// fail counts a failure, and prints the first ones. The caller holds the lock.
func (l *load) fail(why any) {
	if l.failed++; l.failed <= 5 {
		fmt.Println("failed:", why)
	}
}

// podOf is a pod that Pod Security allows in a restricted namespace. It has no owner: the garbage
// collector would delete it for one that does not exist.
func podOf() *corev1.Pod {
	pod, yes, no := measure.ReplicaSetPod(), true, false
	pod.OwnerReferences = nil
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	return pod
}

// A sample is the memory of a replica in a quarter of the day, which counts from 0, in MiB.
type sample struct {
	quarter        int
	resident, heap float64
}

// sample measures the replicas every second until ctx ends.
func (l *load) sample(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(time.Second) {
		quarter := int(4 * l.due[l.now.Load()] / l.plan.day)
		for _, r := range l.cluster.Replicas(ground.Namespace) {
			if resident, heap, err := memoryOf(ctx, r); err == nil {
				l.samples = append(l.samples, sample{quarter, resident, heap})
			}
		}
	}
}

// quarter returns the median of the resident memory in a quarter of the day, and the smallest heap: the one
// after a garbage collection.
func (l *load) quarter(n int) (resident, heap float64) {
	var all []float64
	heap = math.Inf(1)
	for _, s := range l.samples {
		if s.quarter == n {
			all = append(all, s.resident)
			heap = min(heap, s.heap)
		}
	}
	return measure.Median(all), heap
}
