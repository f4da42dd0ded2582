package namespaces

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// counting returns an informer of a cluster without namespaces, and the number of its reads.
func counting(t *testing.T) (*Informer, *atomic.Int64) {
	client := newClient(t)
	var reads atomic.Int64
	client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads.Add(1)
		return false, nil, nil
	})
	return newInformer(client), &reads
}

// Everybody who reaches the port can name namespaces that do not exist.
func TestNamespacesThatDoNotExistCostFewReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, reads := counting(t)
		notFound := 0
		const names = 2000
		for n := range names { // within two seconds
			time.Sleep(time.Millisecond)
			_, err := i.Get(t.Context(), fmt.Sprint("none-", n), noReads, always)
			switch {
			case apierrors.IsNotFound(err):
				notFound++
			case !apierrors.IsTooManyRequests(err):
				t.Fatalf("%v, want NotFound or TooManyRequests", err)
			}
		}
		if notFound < 1 || reads.Load() > liveBurst+livePerSecond*names/1000 {
			t.Errorf("%d reads for %d names, %d not found", reads.Load(), names, notFound)
		}
		if n := len(i.live.absent); n > absentNames {
			t.Errorf("%d names are remembered", n)
		}
	})
}

func TestANameThatDoesNotExistIsNotAskedForTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, reads := counting(t)
		if _, err := i.Get(t.Context(), "none", noReads, always); !apierrors.IsNotFound(err) {
			t.Fatalf("%v, want NotFound", err)
		}
		// It may have been made since: the caller tries again, and does not take no for an answer.
		if _, err := i.Get(t.Context(), "none", noReads, always); !apierrors.IsTooManyRequests(err) {
			t.Errorf("%v, want TooManyRequests", err)
		}
		if reads.Load() != 1 {
			t.Errorf("%d reads, want 1", reads.Load())
		}
		time.Sleep(absentFor)
		if _, err := i.Get(t.Context(), "none", noReads, always); !apierrors.IsNotFound(err) {
			t.Errorf("a second later: %v, want NotFound", err)
		}
	})
}

func TestAReadNeverWaitsForOtherReads(t *testing.T) {
	i := newInformer(newClient(t, namespace("shop", "a")))
	if !i.live.others.slots.TryAcquire(liveReads) { // reads that an API server does not answer
		t.Fatal("reads run")
	}
	if _, err := i.Get(t.Context(), "shop", noReads, always); !apierrors.IsTooManyRequests(err) {
		t.Errorf("%v, want TooManyRequests", err)
	}
	i.live.others.slots.Release(liveReads)
	if ns, err := i.Get(t.Context(), "shop", noReads, always); err != nil || ns.Name != "shop" || !i.live.others.slots.TryAcquire(liveReads) {
		t.Errorf("afterwards: %+v, %v, or reads run", ns, err)
	}
}
