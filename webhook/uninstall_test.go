package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pillion-dev/pillion/controller/uninstall"
)

// release is a release of which a replica may be told that it is removed.
type release struct {
	*uninstall.Uninstall
	webhook uninstallWebhook
	marker  *watch.FakeWatcher
	sweeps  atomic.Int32
	// labels are those of namespaces, of which a sweep takes off ten.
	labels atomic.Int32
	stuck  atomic.Bool
	refuse atomic.Bool
}

// newRelease runs a replica's part until the test ends. Use it in a synctest bubble.
func newRelease(t *testing.T) *release {
	r := &release{marker: watch.NewFakeWithChanSize(10, false)}
	watches := 0
	r.Uninstall = uninstall.New(uninstall.Options{
		Watch: func(context.Context) (watch.Interface, error) {
			if watches++; watches < 3 {
				return nil, errors.New("connection refused")
			}
			return r.marker, nil
		},
		Remove: func(ctx context.Context) (map[string][]string, error) {
			r.sweeps.Add(1)
			if r.stuck.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if r.refuse.Load() {
				return nil, errors.New("a policy refuses it")
			}
			done := map[string][]string{}
			for i := range min(r.labels.Load(), 10) {
				done[string(rune('a'+i))] = []string{"pillion.dev/injection"}
			}
			r.labels.Add(-int32(len(done)))
			return done, nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	r.webhook = NewUninstall(r.Uninstall).(uninstallWebhook)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// review sends a review with a deadline, and returns how long it took.
func (r *release) review(t *testing.T, dryRun bool) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began := time.Now()
	if _, err := r.webhook.Review(ctx, &Review{DryRun: dryRun}); err != nil {
		t.Error(err)
	}
	if ctx.Err() != nil {
		t.Error("the answer is later than the API server waits")
	}
	return time.Since(began)
}

func TestWithoutTheMarkerNobodyTakesLabelsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelease(t)
		time.Sleep(time.Minute)
		for range 10 { // as somebody could forge them
			go r.review(t, false)
		}
		synctest.Wait()
		if n := len(r.webhook.waiting); n > 4 {
			t.Errorf("%d reviews wait", n)
		}
		time.Sleep(time.Minute)
		if r.sweeps.Load() != 0 || r.HasBegun() {
			t.Error("labels are taken off for a review that anybody can send")
		}
	})
}

func TestASweepThatFailsKeepsHelmWaitingForAsLongAsAReviewOnly(t *testing.T) {
	for name, c := range map[string]struct {
		fail        func(*release) *atomic.Bool
		least, most time.Duration
	}{
		"hangs":      {func(r *release) *atomic.Bool { return &r.stuck }, 9 * time.Second, 10 * time.Second},
		"is refused": {func(r *release) *atomic.Bool { return &r.refuse }, 0, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRelease(t)
			c.fail(r).Store(true)
			time.Sleep(time.Minute)
			r.marker.Add(&metav1.PartialObjectMetadata{})
			for range 3 {
				if took := r.review(t, false); took < c.least || took > c.most {
					t.Errorf("it %s: answered after %s", name, took)
				}
			}
			c.fail(r).Store(false)
			time.Sleep(2 * time.Minute)
			r.labels.Store(5)
			if r.review(t, false); r.labels.Load() != 0 {
				t.Errorf("it %s: the labels stay when it works again", name)
			}
		})
	}
}
