//go:build !linux

package main

import (
	"errors"
	"time"
)

// The control plane that this command needs runs on Linux only.
var errLinux = errors.New("this measures processes of Linux only")

type (
	division struct{}
	usage    struct{ ran, waited time.Duration }
)

func sleepUntil(due time.Time)        { time.Sleep(time.Until(due)) }
func divide() (division, bool, error) { return division{}, false, errLinux }
func (division) pin(int) error        { return errLinux }
func usageOf(int) (usage, error)      { return usage{}, errLinux }
func peakMemory(int) (int64, error)   { return 0, errLinux }
