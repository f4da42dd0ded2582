//go:build !linux

package ground

import "syscall"

// procAttributes puts a program into its own process group.
func procAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
