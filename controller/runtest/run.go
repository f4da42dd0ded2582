// Package runtest runs a part of Pillion in a test.
//
// In: a method Run that ends with its context, and conditions. Out: its error, as an error of the test, and the time
// until a condition holds. Imports: nothing of this module; only tests import it.
package runtest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Start calls run in a goroutine until stop is called or the test ends. stop waits for the end of run.
// The test fails if run returns an error.
func Start(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ends with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// limit is how long tests wait for a condition.
const limit = 15 * time.Second

// Eventually waits until the condition returns nil. The test fails with the condition's last error.
func Eventually(t testing.TB, condition func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// Wait waits until an event has happened, and returns how long that took.
func Wait(t testing.TB, event string, happened func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for ; !happened(); time.Sleep(time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("not within %s: %s", limit, event)
		}
	}
	return time.Since(began)
}

// Bubble runs a test in a bubble of synctest, beside other tests.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}
