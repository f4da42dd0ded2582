package ground

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play the owner of a ground that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PILLION_TEST_OWNER"); dir != "" {
		own(dir)
	}
	if dir := os.Getenv("PILLION_TEST_NODE"); dir != "" {
		ownSpace(dir)
	}
	os.Exit(m.Run())
}

// own makes a scratch folder below dir and starts a program in it, says so, and waits to
// be killed.
func own(dir string) {
	scratch, _, err := newScratch(context.Background(), dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	p, err := startProcess(here(), "sleep", "/bin/sleep", []string{"600"}, nil, filepath.Join(scratch, "log"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(scratch, p.cmd.Process.Pid)
	time.Sleep(10 * time.Minute)
}

func TestAKilledOwnerLeavesNoProgramAndTheNextOneRemovesItsFolder(t *testing.T) {
	parent := t.TempDir()
	living, remove, err := newScratch(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), "PILLION_TEST_OWNER="+parent)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	var dead string
	var pid int
	_, err = fmt.Sscan(line, &dead, &pid)
	if killErr := owner.Process.Kill(); killErr != nil {
		t.Fatal(killErr)
	}
	_ = owner.Wait() // killed
	if err != nil {
		t.Fatalf("the owner said %q", line)
	}

	for deadline := time.Now().Add(10 * time.Second); runs(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs after its owner was killed", pid)
		}
	}
	if !present(dead) {
		t.Fatal("the dead owner's folder is gone too early, so that this test shows nothing")
	}
	_, removeNext, err := newScratch(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	if present(dead) || present(dead+".owner") {
		t.Error("the dead owner's folder is still there")
	}
	if !present(living) {
		t.Error("a living owner's folder was removed")
	}
	if err := errors.Join(remove(), removeNext()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(parent, "*")); len(left) != 1 || filepath.Base(left[0]) != ".lock" {
		t.Errorf("%q is left", left)
	}
}

// runs tells whether the process exists and is not a zombie.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestAProgramThatEndsTooEarlyIsReportedWithItsLastWords(t *testing.T) {
	p, err := startProcess(here(), "greeter", "/bin/sh", []string{"-c", "echo no such luck; exit 3"}, nil, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	err = p.until(t.Context(), 10*time.Second, func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "greeter") || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("the error is %v", err)
	}
}

func TestAProgramThatIgnoresTheRequestToStopIsKilled(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess(here(), "stubborn", "/bin/sh", []string{"-c", "trap '' TERM; echo up; while :; do sleep 1; done"}, []string{"PATH=/bin:/usr/bin"}, log)
	if err != nil {
		t.Fatal(err)
	}
	err = p.until(t.Context(), 10*time.Second, func(context.Context) error {
		if tail(log, 1) != "up" {
			return errors.New("not up")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.stop(t.Context(), 300*time.Millisecond)
	if p.alive() || time.Since(began) > 5*time.Second {
		t.Errorf("after %s it is alive: %t", time.Since(began), p.alive())
	}
}
