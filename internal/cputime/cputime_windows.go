package cputime

import (
	"fmt"
	"syscall"
	"time"
)

// Used returns the time that the processors have spent on this process so far, in the program and
// in the kernel (GetProcessTimes).
func Used() time.Duration {
	process, err := syscall.GetCurrentProcess()
	var created, exited, kernel, user syscall.Filetime
	if err == nil {
		err = syscall.GetProcessTimes(process, &created, &exited, &kernel, &user)
	}
	if err != nil {
		panic(fmt.Sprintf("reading the processors' time of this process: %v", err))
	}
	return ticks(kernel) + ticks(user)
}

// ticks returns a duration that Windows counts in units of 100 nanoseconds. [syscall.Filetime.Nanoseconds]
// is for points in time.
func ticks(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
