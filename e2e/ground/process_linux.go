package ground

import "syscall"

// dieWithParent puts a program into its own process group, and has the kernel kill it
// when this program dies without stopping it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
