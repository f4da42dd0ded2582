package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPillionAndTheRestGetDifferentCPUs(t *testing.T) {
	d, shared, err := divide()
	if err != nil {
		t.Fatal(err)
	}
	if d.pillion.Count() != 1 || d.rest.Count() < 1 {
		t.Errorf("%d CPUs for Pillion, %d for the rest", d.pillion.Count(), d.rest.Count())
	}
	for cpu := range len(d.rest) * strconv.IntSize {
		if !shared && d.pillion.IsSet(cpu) && d.rest.IsSet(cpu) {
			t.Errorf("CPU %d is for both", cpu)
		}
	}
}

func TestAProcessIsFoundPinnedAndMeasured(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	found, err := children(os.Getpid())
	if err != nil || !slices.Contains(found, pid) {
		t.Errorf("the children are %v (%v), want %d among them", found, err, pid)
	}
	d, _, err := divide()
	if err != nil {
		t.Fatal(err)
	}
	if err := pinAll(pid, &d.pillion); err != nil {
		t.Fatal(err)
	}
	var got unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &got); err != nil || got != d.pillion {
		t.Errorf("it is kept to %v (%v), want %v", got, err, d.pillion)
	}
	if u, err := usageOf(pid); err != nil || u.ran > 10*time.Second {
		t.Errorf("it has used %+v (%v)", u, err)
	}
	if _, err := usageOf(1 << 30); err == nil {
		t.Error("a process that does not exist has used nothing")
	}
	if peak, err := peakMemory(os.Getpid()); err != nil || peak < 1<<20 || peak > 1<<32 {
		t.Errorf("this process has had %d bytes (%v)", peak, err)
	}
}
