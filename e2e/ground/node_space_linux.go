package ground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A space is the node's own part of this machine: namespaces, which are gone when their
// first process is, and control groups, which have to be removed.
type space struct {
	first  *process // process 1 of the namespaces: when it dies, all others are killed
	fork   *forker  // starts programs in the namespaces
	cgroup string   // the path that the kubelet's groups are below, in every hierarchy
}

// sysctls are settings of the whole machine that a kubelet wants, and what it wants. The
// node gets files of its own in their places, so that the machine's stay as they are.
var sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// newSpace makes a space whose control groups have the given path. Its first process
// writes to log; the files in place of sysctls stand in the folder files.
func newSpace(ctx context.Context, cgroup, log, files string) (_ *space, err error) {
	s := &space{cgroup: cgroup}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := makeCgroups(s.cgroup); err != nil {
		return nil, fmt.Errorf("making control groups: %w", err)
	}
	path, err := exec.LookPath("tini")
	if err != nil {
		return nil, err
	}
	// It takes over and reaps what others leave behind, and that is all it does.
	cmd := exec.Command(path, "--", "sleep", "infinity")
	cmd.SysProcAttr = dieWithParent()
	cmd.SysProcAttr.Cloneflags = namespaces
	if s.first, err = launch(here(), "tini", cmd, log); err != nil {
		return nil, err
	}
	// What is started there cannot be told to die with this program, whose process it does
	// not see, and need not be: it dies with the first process.
	s.fork, err = newForker(ownGroup, enterNamespaces(s.first.cmd.Process.Pid, mountPrivate))
	if err != nil {
		return nil, err
	}
	// By a process of the new namespace, since /proc shows the namespace of its mounter.
	if err := command(ctx, s.fork, "mount", "-t", "proc", "proc", "/proc"); err != nil {
		return nil, err
	}
	return s, s.fork.do(func() error { return coverSysctls(files) })
}

// mountPrivate cuts the calling thread's mounts off from this machine's, and gives the
// node its own folders for what programs keep in fixed places: sockets, network
// namespaces, links to logs.
func mountPrivate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for _, folder := range []string{"/run", "/var/log"} {
		if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mounting %s: %w", folder, err)
		}
	}
	return unix.Sethostname([]byte(nodeName))
}

// coverSysctls runs where the node's /proc is mounted.
func coverSysctls(files string) error {
	for name, value := range sysctls {
		file := filepath.Join(files, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("covering sysctl %s: %w", name, err)
		}
	}
	return nil
}

// close kills every process of the namespaces, and removes the control groups. Mounts
// and network are gone with the last process.
func (s *space) close() error {
	if s.fork != nil {
		s.fork.end()
	}
	if s.first != nil {
		s.first.stop(context.Background(), 0)
	}
	return removeCgroups(s.cgroup)
}

// cgroupRoots are the mounted hierarchies: one (v2), or one for each controller (v1).
func cgroupRoots() ([]string, error) {
	const root = "/sys/fs/cgroup"
	if present(filepath.Join(root, "cgroup.controllers")) {
		return []string{root}, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, e := range entries {
		if e.IsDir() { // the others are links to them
			roots = append(roots, filepath.Join(root, e.Name()))
		}
	}
	return roots, nil
}

func makeCgroups(name string) error {
	roots, err := cgroupRoots()
	for _, root := range roots {
		err = errors.Join(err, os.MkdirAll(filepath.Join(root, name), 0o755))
	}
	return err
}

// cgroupLimit is how long the kernel may take to see that a group's processes are gone.
const cgroupLimit = 10 * time.Second

// removeCgroups removes the groups below name, if they are there. Their files go with them.
func removeCgroups(name string) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for limit := time.Now().Add(cgroupLimit); ; time.Sleep(50 * time.Millisecond) {
		var err error
		for _, root := range roots {
			var groups []string
			_ = filepath.WalkDir(filepath.Join(root, name), func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					groups = append(groups, path)
				}
				return nil // groups come and go
			})
			for _, group := range slices.Backward(groups) {
				if removeErr := os.Remove(group); removeErr != nil && !errors.Is(removeErr, os.ErrNotExist) {
					err = fmt.Errorf("removing control groups: %w", removeErr)
				}
			}
		}
		if err == nil || time.Now().After(limit) {
			return err
		}
	}
}

// processOf is a process of the container with that ID: the first of its control group.
func (s *space) processOf(containerID string) int {
	roots, err := cgroupRoots()
	if err != nil || len(roots) == 0 {
		return 0
	}
	found := 0
	for _, root := range roots {
		_ = filepath.WalkDir(filepath.Join(root, s.cgroup), func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.IsDir() || entry.Name() != containerID {
				return nil // groups come and go
			}
			data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if err == nil {
				_, _ = fmt.Sscan(string(data), &found)
			}
			return filepath.SkipAll
		})
		if found != 0 {
			return found
		}
	}
	return 0
}
