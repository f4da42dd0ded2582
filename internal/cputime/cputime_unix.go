//go:build unix

package cputime

import (
	"fmt"
	"syscall"
	"time"
)

// Used returns the time that the processors have spent on this process so far, in the program and
// in the kernel (getrusage(2)).
func Used() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(fmt.Sprintf("reading the processors' time of this process: %v", err))
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
