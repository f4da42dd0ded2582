package proof

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/logtest"
	"github.com/pillion-dev/pillion/controller/runtest"
)

const namespace = "pillion-system-proof"

type answer func(*corev1.Pod) (*corev1.Pod, error)

// injected is what a working cluster answers.
func injected(pod *corev1.Pod) (*corev1.Pod, error) {
	pod.Annotations["pillion.dev/status"] = "{}"
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: Template})
	return pod, nil
}

// bare is what a cluster answers that does not call Pillion.
func bare(pod *corev1.Pod) (*corev1.Pod, error) { return pod, nil }

// refused is what a cluster answers that refuses the pod.
func refused(*corev1.Pod) (*corev1.Pod, error) {
	return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("exceeded quota"))
}

// cluster is an API server that a prover asks.
type cluster struct {
	mu     sync.Mutex
	answer answer
	ready  error
	asked  []time.Time

	log     logtest.Log
	changes []bool
}

func (c *cluster) set(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = a
}

// times returns how often the cluster was asked.
func (c *cluster) times() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.asked) }

// changed notes whether the prover has proven injection when it says that something changed.
func (c *cluster) changed(proven bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, proven)
}

// start runs a prover until the test ends. Use it in a synctest bubble.
func start(t *testing.T, c *cluster) *Prover {
	t.Helper()
	p := New(Options{
		Namespace: namespace, Timeout: 15 * time.Second,
		Ready: func() error { c.mu.Lock(); defer c.mu.Unlock(); return c.ready },
		Create: func(_ context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.asked = append(c.asked, time.Now())
			return c.answer(pod)
		},
		Logger: c.log.Logger(),
	})
	p.OnChange(func() { c.changed(p.Proven()) })
	runtest.Start(t, p.Run)
	return p
}

func TestProofsBeginWhenTheReplicaIsReadyAndFollowEachOtherSlowlyOnceOneSucceeds(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		c := &cluster{answer: injected, ready: errors.New("certificates: none")}
		p := start(t, c)
		time.Sleep(time.Minute)
		if c.times() != 0 || p.Proven() {
			t.Errorf("before the replica is ready: %d proofs, proven=%t", c.times(), p.Proven())
		}
		c.mu.Lock()
		c.ready = nil
		c.mu.Unlock()
		time.Sleep(time.Second)
		if c.times() != 1 || !p.Proven() {
			t.Errorf("soon after it is ready: %d proofs, proven=%t", c.times(), p.Proven())
		}
		time.Sleep(10 * time.Minute)
		if n := c.times(); n < 17 || n > 26 {
			t.Errorf("%d proofs in ten minutes, want one in about 30 s", n)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		gaps := map[time.Duration]bool{}
		for i := range c.asked[1:] {
			gaps[c.asked[i+1].Sub(c.asked[i])] = true
		}
		if len(gaps) < 5 {
			t.Errorf("the times between proofs are %v, want that replicas do not keep step", gaps)
		}
		if len(c.changes) != 1 || !c.changes[0] {
			t.Errorf("the changes are %v, want one", c.changes)
		}
	})
}

func TestProofsThatFailFollowEachOtherQuicklyAndThenEveryTenSeconds(t *testing.T) {
	runtest.Bubble(t, func(t *testing.T) {
		c := &cluster{answer: refused}
		p := start(t, c)
		time.Sleep(5 * time.Second)
		if n := c.times(); n < 3 || n > 6 {
			t.Errorf("%d proofs in the first five seconds, want about one in a second", n)
		}
		time.Sleep(time.Minute)
		before := c.times()
		time.Sleep(100 * time.Second)
		if n := c.times() - before; n != 10 {
			t.Errorf("%d proofs in 100 seconds of failures, want 10", n)
		}
		if n := c.log.Count("exceeded quota"); n != 1 {
			t.Errorf("the log has the API server's error %d times, want once:\n%s", n, c.log.String())
		}
		time.Sleep(11 * time.Minute)
		if n := c.log.Count("exceeded quota"); n != 2 {
			t.Errorf("eleven minutes later the log has the API server's error %d times, want twice:\n%s", n, c.log.String())
		}
		c.set(injected)
		time.Sleep(lastPause + time.Millisecond)
		if !p.Proven() || !strings.Contains(c.log.String(), "proven: ") {
			t.Errorf("after it works again: proven=%t; the log:\n%s", p.Proven(), c.log.String())
		}
	})
}

func TestOnlyAPodWithTheRecordAndTheSidecarProvesSomething(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer answer
		says   string
	}{
		"injected":             {injected, ""},
		"nobody calls Pillion": {bare, "came back without the sidecar pillion-proof"},
		"a record without the sidecar": {func(pod *corev1.Pod) (*corev1.Pod, error) {
			pod.Annotations["pillion.dev/status"] = "{}"
			return pod, nil
		}, "came back without the sidecar pillion-proof"},
		"a sidecar without the record": {func(pod *corev1.Pod) (*corev1.Pod, error) {
			pod.Spec.InitContainers = []corev1.Container{{Name: Template}}
			return pod, nil
		}, "came back without the sidecar pillion-proof"},
		"refused": {refused, "by dry run: pods is forbidden: exceeded quota"},
	} {
		pod, answer := c.answer(Pod())
		err := Validate(namespace, pod, answer)
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), namespace) || !errors.Is(err, answer) && answer != nil) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Whatever answers come, the state follows from the answers since the last success alone.
func TestTheStateFollowsFromTheLastAnswers(t *testing.T) {
	t.Parallel()
	for range 50 {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		p := New(Options{Logger: slog.New(slog.DiscardHandler), Namespace: namespace})
		row, proven := 0, false
		for i := range 200 {
			failure := []error{nil, errors.New("no")}[random.IntN(2)]
			wait := p.observe(failure)
			if failure == nil {
				row, proven = 0, true
			} else if row++; row >= maxFailures {
				proven = false
			}
			if got := p.Proven(); got != proven {
				t.Fatalf("seed %d, answer %d (%v): %t, want %t", seed, i, failure, got, proven)
			}
			if wait <= 0 || wait > interval*6/5 || failure != nil && wait > lastPause {
				t.Fatalf("seed %d, answer %d: the next proof comes after %s", seed, i, wait)
			}
		}
	}
}
