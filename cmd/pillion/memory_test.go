package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsGivenBackOnceLoadingIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		freed := 0
		g := newGarbage()
		g.free = func() { freed++ }
		ended := make(chan error)
		go func() { ended <- g.run(ctx) }()
		for range 10 { // a load of ten seconds
			time.Sleep(time.Second)
			g.left()
		}
		time.Sleep(quiet - time.Millisecond)
		if synctest.Wait(); freed != 0 {
			t.Errorf("memory was given back %d times while something was loaded", freed)
		}
		time.Sleep(time.Hour)
		if synctest.Wait(); freed != 1 {
			t.Errorf("memory was given back %d times after the load, want once", freed)
		}
		g.left()
		time.Sleep(time.Hour)
		if synctest.Wait(); freed != 2 {
			t.Errorf("memory was given back %d times after two loads", freed)
		}
		for range 100 { // a load that does not end
			g.left()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		if synctest.Wait(); freed < 2+4 || freed > 2+6 {
			t.Errorf("memory was given back %d times in a load of 100 seconds, want every %s", freed-2, longest)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
