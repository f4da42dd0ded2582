package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/injector"
)

// nowFlag adds --now, the time at which a command decides. Zero is the real time.
func nowFlag(flags *pflag.FlagSet, now *time.Time) {
	flags.TimeVar(now, "now", time.Time{}, []string{time.RFC3339}, "decide as at this time, by which exceptions of required templates end, such as 2027-03-31T00:00:00Z (default: the real time)")
}

// at returns a pipeline that decides at the time of --now.
func at(p *injector.Pipeline, now time.Time) *injector.Pipeline {
	if now.IsZero() {
		return p
	}
	return p.At(now)
}

// nowOr returns the time of --now, or the real time.
func nowOr(now time.Time) time.Time {
	if now.IsZero() {
		return time.Now()
	}
	return now
}
