// This file is compiled into the package time of a Pillion whose clock is wrong: see `make soak`.

package time

import "syscall"

// clockOff is by how many seconds the clock is off: an hour behind for a program at a path with
// "behind" in it, an hour ahead for others.
var clockOff = func() int64 {
	path := make([]byte, 4096)
	n, _ := syscall.Readlink("/proc/self/exe", path)
	for i := range n {
		if n-i >= len("behind") && string(path[i:i+len("behind")]) == "behind" {
			return -3600
		}
	}
	return 3600
}()
