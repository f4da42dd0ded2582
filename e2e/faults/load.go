package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// pace is how often a pod is created in each namespace of the load: ten a second.
const pace = 100 * time.Millisecond

// Patience is how long a creation may take: longer than an API server waits for two webhooks.
const Patience = 40 * time.Second

// load creates pods and keeps what became of them. The pods are dry runs: API servers call
// the same entries for them, and nothing has to be deleted. They are sent when their time has
// come, whether earlier ones are answered or not.
type load struct {
	kubeconfig string
	state      *state

	mu       sync.Mutex
	outcomes []Outcome
	waiting  map[int]time.Time // pods that are not answered, and when they were sent
	next     int
}

// stream creates a pod in the namespace every pace until ctx ends.
func (l *load) stream(ctx context.Context, client kubernetes.Interface, kind Kind, namespace string) {
	var all sync.WaitGroup
	measure.Every(ctx, pace, func() {
		all.Go(func() { l.try(context.WithoutCancel(ctx), client, kind, namespace, loadPod()) })
	})
	all.Wait()
}

// burst creates n pods at the same moment, as the controllers of workloads do, and returns when all are answered.
func (l *load) burst(ctx context.Context, kind Kind, namespace string, n int) error {
	// An API server takes 250 requests at once on a connection.
	const each = 100
	var clients []kubernetes.Interface
	for range (n + each - 1) / each {
		_, client, err := measure.Connect(l.kubeconfig)
		if err != nil {
			return err
		}
		if _, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil { // connects
			return err
		}
		clients = append(clients, client)
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { l.try(ctx, clients[i/each], kind, namespace, owned(loadPod())) })
	}
	all.Wait()
	return nil
}

// owned returns the pod as the controller of a ReplicaSet creates it.
func owned(pod *corev1.Pod) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "burst", UID: "burst", Controller: new(true)}}
	return pod
}

func (l *load) try(ctx context.Context, client kubernetes.Interface, kind Kind, namespace string, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	o := Outcome{Kind: kind, Namespace: namespace, Began: time.Now()}
	l.mu.Lock()
	id := l.next
	l.next++
	l.waiting[id] = o.Began
	l.mu.Unlock()
	created, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	o.Ended = time.Now()
	if err != nil {
		o.Refused, o.Otherwise, o.Away = Classify(err)
	} else {
		l.judge(&o, created)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
	l.outcomes = append(l.outcomes, o)
}

// judge says what the created pod lacks, and what it should not have.
func (l *load) judge(o *Outcome, pod *corev1.Pod) {
	var has []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == librarySidecar || c.Name == clusterSidecar {
			has = append(has, c.Name)
		}
	}
	if o.Kind == NeverAsked {
		if len(has) > 0 || pod.Annotations[statusAnnotation] != "" {
			o.Unwanted = "changed, though nobody asked"
		}
		return
	}
	o.Closed = l.state.closed(o.Namespace, o.Began, o.Ended)
	must, mustNot := l.state.template(o.Began, o.Ended)
	if !slices.Contains(has, librarySidecar) {
		o.Missing = append(o.Missing, librarySidecar)
	}
	switch side := slices.Contains(has, clusterSidecar); {
	case must && !side:
		o.Missing = append(o.Missing, clusterSidecar)
	case mustNot && side:
		o.Unwanted = "with " + clusterSidecar + ", which is suspended"
	}
}

// Classify says why a creation failed: for Pillion, for another reason that the API server
// gave, or because no API server answered.
func Classify(err error) (refused, otherwise string, away bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", "", true
	}
	text := err.Error()
	// As API servers name the entry: admission webhook "requested.pillion.dev" denied the
	// request, failed calling webhook "enforced.pillion.dev".
	if strings.Contains(text, `webhook "`) && strings.Contains(text, `.pillion.dev"`) {
		return text, "", false
	}
	return "", text, false
}

// take returns the outcomes of pods that were sent from then on and before the other time.
func (l *load) take(from, before time.Time) []Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taken []Outcome
	for _, o := range l.outcomes {
		if !o.Began.Before(from) && o.Began.Before(before) {
			taken = append(taken, o)
		}
	}
	return taken
}

// forget drops the outcomes of pods that were sent before.
func (l *load) forget(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = slices.DeleteFunc(l.outcomes, func(o Outcome) bool { return o.Began.Before(before) })
}

// answered waits until no pod that was sent before then is waiting.
func (l *load) answered(ctx context.Context, before time.Time) error {
	return measure.Within(ctx, Patience+10*time.Second, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		n := 0
		for _, sent := range l.waiting {
			if sent.Before(before) {
				n++
			}
		}
		if n > 0 {
			return fmt.Errorf("%d pods are not answered", n)
		}
		return nil
	})
}

// steady is nil if all went well for d: every pod of that time was answered and is as it
// should be, and there were as many as there should be.
func (l *load) steady(d time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := time.Now().Add(-d)
	for _, sent := range l.waiting {
		if time.Since(sent) > time.Second {
			return fmt.Errorf("a pod waits since %s", time.Since(sent).Round(time.Millisecond))
		}
	}
	n := map[Kind]int{}
	for _, o := range l.outcomes {
		if o.Began.Before(from) {
			continue
		}
		if o.Away || o.verdict() != good {
			return fmt.Errorf("%s %s", o.verdict(), o)
		}
		n[o.Kind]++
	}
	if !l.state.closed(enforcedNamespace, from.Add(settle), time.Now()) {
		return fmt.Errorf("%s does not fail closed", enforcedNamespace)
	}
	for _, kind := range []Kind{Enforced, Requested, NeverAsked} {
		if want := int(d/pace) / 2; n[kind] < want {
			return fmt.Errorf("%d pods were created in the namespace of the kind %s in %s, want %d", n[kind], kind, d, want)
		}
	}
	return nil
}
