package faults

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// patience is how long a creation may take: longer than an API server waits for two webhooks.
const patience = 40 * time.Second

// workloads is how many workloads of each namespace the pods belong to.
const workloads = 10

// load creates pods and keeps what became of them. They are sent when their time has come, whether
// earlier ones are answered or not.
type load struct {
	clients []kubernetes.Interface // one for each API server; the pods of a namespace go through them in turn
	pace    time.Duration          // between two pods of a namespace
	// earnest has one of so many pods created and deleted again, none if it is 0. The others are dry
	// runs: API servers call the same entries for them, and nothing has to be deleted. Pillion notes
	// refusals of the former only.
	earnest int
	paused  atomic.Bool // streams create nothing

	mu       sync.Mutex
	attempts []attempt // that are not judged yet
	sent     int
	open     map[int]bool // pods that are not answered, by their numbers
}

// stream creates a pod in the namespace every pace until ctx ends, and returns when all are answered.
func (l *load) stream(ctx context.Context, kind namespaceKind, namespace string) {
	var all sync.WaitGroup
	n := 0
	measure.Every(ctx, l.pace, func() {
		if l.paused.Load() {
			return
		}
		client, pod := l.clients[n%len(l.clients)], newPod(n)
		earnest := l.earnest > 0 && n%l.earnest == 0
		n++
		all.Go(func() { l.create(context.WithoutCancel(ctx), client, kind, namespace, pod, earnest) })
	})
	all.Wait()
}

// create creates one pod, and keeps what became of it.
func (l *load) create(ctx context.Context, client kubernetes.Interface, kind namespaceKind, namespace string, pod *corev1.Pod, earnest bool) {
	l.mu.Lock()
	id := l.sent
	l.sent++
	l.open[id] = true
	l.mu.Unlock()
	a := try(ctx, client, kind, namespace, pod, earnest)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
	l.attempts = append(l.attempts, a)
}

// answered waits until every pod that was sent until now is answered, and returns the attempts since
// the last time.
func (l *load) answered(ctx context.Context) ([]attempt, error) {
	l.mu.Lock()
	until := l.sent
	l.mu.Unlock()
	err := measure.Within(ctx, patience+10*time.Second, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id := range l.open {
			if id < until {
				return fmt.Errorf("pod %d of %d is not answered", id, until)
			}
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	attempts := l.attempts
	l.attempts = nil
	return attempts, err
}

// newPod returns a pod of one of the workloads.
func newPod(id int) *corev1.Pod {
	pod := measure.ReplicaSetPod()
	pod.OwnerReferences = nil // there is no such ReplicaSet
	pod.GenerateName = fmt.Sprintf("web-%d-", id%workloads)
	return pod
}

// try creates a pod, in earnest or by dry run.
func try(ctx context.Context, client kubernetes.Interface, kind namespaceKind, namespace string, pod *corev1.Pod, earnest bool) attempt {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if earnest {
		options.DryRun = nil
	}
	pods := client.CoreV1().Pods(namespace)
	a := attempt{kind: kind, namespace: namespace, began: time.Now()}
	created, err := pods.Create(ctx, pod, options)
	a.ended = time.Now()
	if err != nil {
		a.fail(err)
		return a
	}
	a.compare(created)
	if earnest {
		_ = pods.Delete(ctx, created.Name, *metav1.NewDeleteOptions(0)) // what stays goes with the control plane
	}
	return a
}

// burstSize is how many pods a burst has.
const burstSize = 500

// burst creates pods at the same moment, as the controllers of workloads do, and returns when all are answered.
func (l *load) burst(ctx context.Context, kubeconfig string, kind namespaceKind) error {
	const each = 100 // an API server takes 250 requests at once on a connection
	var clients []kubernetes.Interface
	for range burstSize / each {
		_, client, err := measure.Connect(kubeconfig)
		if err == nil {
			_, err = client.CoreV1().Namespaces().Get(ctx, namespaceOf(kind), metav1.GetOptions{}) // connects
		}
		if err != nil {
			return err
		}
		clients = append(clients, client)
	}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "burst", UID: "burst", Controller: new(true)}
	var all sync.WaitGroup
	for i := range burstSize {
		pod := newPod(i)
		pod.OwnerReferences = []metav1.OwnerReference{owner}
		all.Go(func() { l.create(ctx, clients[i/each], kind, namespaceOf(kind), pod, false) })
	}
	all.Wait()
	return nil
}
