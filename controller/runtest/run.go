// Package runtest runs a part of Pillion in a test.
//
// In: a method Run that ends with its context. Out: its error, as an error of the test. Imports:
// nothing of this module; only tests import it.
package runtest

import (
	"context"
	"sync"
	"testing"
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
