package ground

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// namespaces are those that a node has for itself, so that all it does to "the machine"
// ends with it: its processes (also those whose parents left them), its mounts, its
// network, its host name.
const namespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// enterNamespaces moves the calling thread into the namespaces of the process pid, its
// children into its process namespace, and runs setup there.
func enterNamespaces(pid int, setup func() error) func() error {
	return func() error {
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return fmt.Errorf("opening process %d: %w", pid, err)
		}
		defer unix.Close(process)
		// A thread that shares its root and working directory with others cannot enter a
		// mount namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("unsharing the working directory: %w", err)
		}
		if err := unix.Setns(process, namespaces); err != nil {
			return fmt.Errorf("entering the namespaces of process %d: %w", pid, err)
		}
		return setup()
	}
}
