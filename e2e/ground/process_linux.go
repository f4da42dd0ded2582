package ground

import "syscall"

// procAttributes puts a program into its own process group, and has the kernel kill it
// when this program dies without stopping it.
func procAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
