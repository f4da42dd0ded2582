package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// collecting runs a collection until the test ends. It counts how often memory is given back, and notes
// how often garbage is collected.
func collecting(t *testing.T, count, percent *atomic.Int32) *garbage {
	ctx, stop := context.WithCancel(t.Context())
	g := newGarbage()
	g.free, g.collectAt = func() { count.Add(1) }, func(p int) { percent.Store(int32(p)) }
	ended := make(chan error)
	go func() { ended <- g.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestMemoryIsGivenBackOnceLoadingIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count, percent atomic.Int32
		g := collecting(t, &count, &percent)
		for range 2 { // a load of two seconds
			time.Sleep(time.Second)
			g.left()
		}
		time.Sleep(quiet - time.Millisecond)
		synctest.Wait()
		if freed := count.Load(); freed != 0 {
			t.Errorf("memory was given back %d times while something was loaded", freed)
		}
		if p := percent.Load(); p != loadingPercent {
			t.Errorf("garbage is collected at %d percent during the load", p)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if freed := count.Load(); freed != 1 {
			t.Errorf("memory was given back %d times after the load, want once", freed)
		}
		g.left()
		time.Sleep(time.Hour)
		synctest.Wait()
		if freed := count.Load(); freed != 2 {
			t.Errorf("memory was given back %d times after two loads", freed)
		}
		for range 100 { // a load that does not end
			g.left()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if freed := count.Load(); freed < 2+16 || freed > 2+21 {
			t.Errorf("memory was given back %d times in a load of 100 seconds, want every %s", freed-2, longest)
		}
		if p := percent.Load(); p != servingPercent {
			t.Errorf("garbage is collected at %d percent after the load", p)
		}
	})
}

// A cluster in which a namespace changes every few seconds must not stop every few seconds.
func TestNamespacesThatChangeHaveMemoryGivenBackOnceInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count, percent atomic.Int32
		g := collecting(t, &count, &percent)
		time.Sleep(10 * time.Minute) // the start is over
		const minutes = 100
		before := count.Load()
		for range minutes * 60 / 3 {
			g.leftLittle()
			time.Sleep(3 * time.Second)
		}
		if freed := count.Load() - before; freed < minutes/2 || freed > minutes+1 {
			t.Errorf("memory was given back %d times in %d minutes", freed, minutes)
		}
		g.leftLittle()
		time.Sleep(10 * time.Minute)
		before = count.Load()
		time.Sleep(time.Hour)
		if freed := count.Load() - before; freed != 0 {
			t.Errorf("memory was given back %d times while nothing changed", freed)
		}
		g.leftLittle()
		time.Sleep(quiet + time.Second)
		g.leftLittle() // the next one is owed
		time.Sleep(apart + longest)
		if freed := count.Load() - before; freed != 2 {
			t.Errorf("memory was given back %d times after two changes, want twice", freed)
		}
		g.leftLittle()
		g.left() // templates are not made to wait
		time.Sleep(quiet + time.Second)
		if freed := count.Load() - before; freed != 3 {
			t.Errorf("memory was given back %d times after templates were loaded, too", freed)
		}
	})
}
