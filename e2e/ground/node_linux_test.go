package ground

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// ownSpace makes a node's space and network in a scratch folder below parent, starts a
// program in it that leaves its parent, says so, and waits to be killed.
func ownSpace(parent string) {
	if err := makeSpace(context.Background(), parent); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	time.Sleep(10 * time.Minute)
}

func makeSpace(ctx context.Context, parent string) error {
	dir, _, err := newScratch(ctx, parent)
	if err != nil {
		return err
	}
	s, err := newSpace(ctx, cgroupOf(dir), filepath.Join(dir, "log"), filepath.Join(dir, "sysctl"))
	if err != nil {
		return err
	}
	w, err := newNetwork(ctx, s, dir)
	if err != nil {
		return err
	}
	// As the shim of a container does.
	if err := command(ctx, s.fork, "sh", "-c", "setsid sh -c 'sleep 600; : "+orphanOf(dir)+"' >/dev/null 2>&1 &"); err != nil {
		return err
	}
	fmt.Println(dir, w.wire())
	return nil
}

// orphanOf is a text in the command line of the program that ownSpace leaves.
func orphanOf(dir string) string { return "orphan-of-" + filepath.Base(dir) }

// orphans are the processes of this machine with that text in their command lines.
func orphans(t *testing.T, text string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), text) {
			found = append(found, filepath.Dir(path))
		}
	}
	return found
}

// cgroupsOf are the control groups of the node whose folder is dir.
func cgroupsOf(t *testing.T, dir string) []string {
	t.Helper()
	roots, err := cgroupRoots()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, root := range roots {
		if group := filepath.Join(root, cgroupOf(dir)); present(group) {
			found = append(found, group)
		}
	}
	return found
}

// The kernel takes a wire down when the last process of the node's network has ended, which
// may be while somebody removes it.
func TestAWireThatGoesWhileItIsRemovedIsNoError(t *testing.T) {
	if err := nodeCanRun(); err != nil {
		t.Skipf("no wire can be made here: %v", err)
	}
	dir, name := t.TempDir(), fmt.Sprintf("pilliont%d", os.Getpid()%1_000_000)
	if err := os.WriteFile(filepath.Join(dir, wireFile), []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := command(t.Context(), here(), "ip", "link", "add", name, "type", "veth", "peer", "name", name+"p"); err != nil {
			t.Fatal(err)
		}
		var removers errgroup.Group
		for range 4 {
			removers.Go(func() error { return removeWire(dir) })
		}
		if err := removers.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := net.InterfaceByName(name); err == nil {
			t.Fatalf("%s is still there", name)
		}
	}
}

func TestANodeWhoseOwnerIsKilledLeavesNoProcessAndTheNextOneRemovesTheRest(t *testing.T) {
	if err := nodeCanRun(); err != nil {
		t.Skipf("no node can run here: %v", err)
	}
	sysctl := func() string {
		value, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	before := sysctl()
	parent := t.TempDir()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), "PILLION_TEST_NODE="+parent)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	var dir, wire string
	_, err = fmt.Sscan(line, &dir, &wire)
	if err == nil {
		if len(orphans(t, orphanOf(dir))) == 0 || len(cgroupsOf(t, dir)) == 0 {
			t.Error("the node has no program or no control group, so that this test shows nothing")
		}
		if _, err := net.InterfaceByName(wire); err != nil {
			t.Errorf("the node has no wire: %v", err)
		}
	}
	if now := sysctl(); now != before {
		t.Errorf("the node changes a sysctl of this machine from %s to %s", before, now)
	}
	if killErr := owner.Process.Kill(); killErr != nil {
		t.Fatal(killErr)
	}
	_ = owner.Wait() // killed
	if err != nil {
		t.Fatalf("the owner said %q", line)
	}

	for deadline := time.Now().Add(10 * time.Second); len(orphans(t, orphanOf(dir))) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q still run after the owner was killed", orphans(t, orphanOf(dir)))
		}
	}
	_, remove, err := newScratch(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if present(dir) {
		t.Error("the dead owner's folder is still there")
	}
	if left := cgroupsOf(t, dir); len(left) > 0 {
		t.Errorf("the control groups %q are left", left)
	}
	if _, err := net.InterfaceByName(wire); err == nil {
		t.Errorf("the interface %s is left", wire)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("mounts are left:\n%s", mounts)
	}
}
