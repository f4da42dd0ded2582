package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sleepUntil blocks the thread until due: the Go runtime wakes a goroutine up to a millisecond late.
func sleepUntil(due time.Time) {
	for left := time.Until(due); left > 0; left = time.Until(due) {
		spec := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&spec, nil) // a signal may end it early
	}
}

// A division says which of the machine's CPUs are for Pillion, and which for all else.
type division struct{ pillion, rest unix.CPUSet }

// divide gives Pillion one of the CPUs that this process may use. Where there is no other,
// all share it.
func divide() (d division, shared bool, err error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return d, false, fmt.Errorf("asking for this process's CPUs: %w", err)
	}
	last := -1
	for cpu := range len(allowed) * strconv.IntSize {
		if allowed.IsSet(cpu) {
			last = cpu
		}
	}
	d.pillion.Set(last)
	d.rest = allowed
	if allowed.Count() == 1 {
		return d, true, nil
	}
	d.rest.Clear(last)
	return d, false, nil
}

// pin keeps Pillion to its CPU, and this process and all others that it has started to the rest.
func (d division) pin(pillion int) error {
	if err := pinAll(pillion, &d.pillion); err != nil {
		return err
	}
	processes, err := children(os.Getpid())
	if err != nil {
		return err
	}
	for _, pid := range append(processes, os.Getpid()) {
		if pid == pillion {
			continue
		}
		if err := pinAll(pid, &d.rest); err != nil {
			return err
		}
	}
	return nil
}

// pinAll keeps every thread of a process to CPUs. A thread is born with those of the one
// that starts it, so it goes on until it has seen no other.
func pinAll(pid int, cpus *unix.CPUSet) error {
	pinned := map[int]bool{}
	for {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		more := false
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if pinned[tid] {
				continue
			}
			if err := unix.SchedSetaffinity(tid, cpus); err != nil && err != unix.ESRCH {
				return fmt.Errorf("pinning thread %d of process %d: %w", tid, pid, err)
			}
			pinned[tid], more = true, true
		}
		if !more {
			return nil
		}
	}
}

// children are the processes that a process has started and that live.
func children(of int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		var state string
		// The name is in parentheses, and may have any character.
		_, err = fmt.Sscan(string(text), &pid)
		if err == nil {
			_, err = fmt.Sscan(string(text[strings.LastIndexByte(string(text), ')')+1:]), &state, &parent)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if parent == of {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// usage is what a process has taken of its CPU so far.
type usage struct {
	ran    time.Duration
	waited time.Duration // while it could have run
}

func usageOf(pid int) (usage, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return usage{}, err
	}
	if len(files) == 0 {
		return usage{}, fmt.Errorf("process %d has ended, or this kernel does not say how long threads ran", pid)
	}
	var u usage
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited int64
		if _, err := fmt.Sscan(string(text), &ran, &waited); err != nil {
			return usage{}, fmt.Errorf("reading %s: %w", file, err)
		}
		u.ran += time.Duration(ran)
		u.waited += time.Duration(waited)
	}
	return u, nil
}

// peakMemory is the most that a process has had resident so far, in bytes.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			var kB int64
			_, err := fmt.Sscan(rest, &kB)
			return kB << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}
