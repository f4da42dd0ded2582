//go:build !linux

package ground

import "syscall"

// dieWithParent puts a program into its own process group.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
