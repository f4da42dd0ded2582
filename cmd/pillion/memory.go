package main

import (
	"context"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pillion-dev/pillion/controller/waiting"
)

// limitMemory has the garbage collector work harder when the process comes near its
// limit, in bytes, unless the environment variable GOMEMLIMIT says when. That is well below the
// limit, because with all that [webhook.MemoryFor] gives away the process takes more, and
// because Go does not count the binary.
//
// Far from the limit it works half as often as Go has it by itself, unless GOGC says how
// often: each review leaves much more garbage than it keeps.
func limitMemory(limit int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit * 9 / 16)
	}
	collectAt(servingPercent)
}

// How much garbage there may be, as a part of what is kept, before it is collected: while
// something is loaded, and else.
const loadingPercent, servingPercent = 50, 200

func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// The garbage of loading is given back when nothing has been loaded for quiet, and at the
// latest after longest: replicas write the status of a thousand templates, and the labels of
// ten thousand namespaces, for minutes.
const (
	quiet   = 2 * time.Second
	longest = 5 * time.Second
	// What changes leave is given back once in apart: to give back stops the process for
	// milliseconds, and in a large cluster namespaces change all the time.
	apart = time.Minute
)

// garbage gives back to the system what loading has left of memory. To compile a thousand
// templates leaves ten times as much as they take, and Go would keep most of it, because
// it expects as much again.
type garbage struct {
	loaded waiting.Wake
	// much reports whether what is to be given back is more than what changes leave.
	much atomic.Bool
	free func()
	// collectAt says how often garbage is collected.
	collectAt func(percent int)
}

func newGarbage() *garbage {
	return &garbage{loaded: waiting.NewWake(), free: debug.FreeOSMemory, collectAt: collectAt}
}

// left says that something was loaded. It does not wait.
func (g *garbage) left() {
	g.much.Store(true)
	g.leftLittle()
}

// leftLittle says that one object changed. It does not wait.
func (g *garbage) leftLittle() { g.loaded.Wake() }

// run gives back until ctx ends, which is no error. It begins with the start, which loads
// the namespaces.
func (g *garbage) run(ctx context.Context) error {
	g.left()
	var freed time.Time
	var owed <-chan time.Time
	free := func() {
		g.free()
		freed, owed = time.Now(), nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-owed:
			free()
			continue
		case <-g.loaded:
		}
		g.collectAt(loadingPercent)
		latest := time.After(longest)
		for settled := false; !settled; {
			select {
			case <-ctx.Done():
				return nil
			case <-g.loaded:
			case <-latest:
				settled = true
			case <-time.After(quiet):
				settled = true
			}
		}
		switch wait := apart - time.Since(freed); {
		case g.much.Swap(false), wait <= 0:
			free()
		case owed == nil:
			owed = time.After(wait)
		}
		g.collectAt(servingPercent)
	}
}
