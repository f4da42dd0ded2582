package main

import (
	"os"
	"runtime/debug"
)

// limitMemory has the garbage collector work harder when the process comes near its limit, in bytes, unless the
// environment variable GOMEMLIMIT has another. That is well below the limit, because with all that
// [webhook.MemoryFor] gives away the process takes more, and because Go does not count the binary.
//
// Far from the limit it works half as often as Go has it by itself, unless GOGC has it otherwise: each review leaves
// much more garbage than it uses later.
func limitMemory(limit int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit * 9 / 16)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
