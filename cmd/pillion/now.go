package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/injector"
)

// nowFlag adds --now, the time at which a command decides. Zero is the real time.
func nowFlag(flags *pflag.FlagSet, now *time.Time) {
	flags.Var((*moment)(now), "now", "decide as at this time, by which exceptions of required templates end, such as 2027-03-31T00:00:00Z (default: the real time)")
}

// moment is a flag's value: a time, or zero.
type moment time.Time

func (m *moment) Set(text string) error {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return errors.New("want a time with its zone, such as 2027-03-31T00:00:00Z")
	}
	*m = moment(t)
	return nil
}

func (m *moment) String() string {
	if t := time.Time(*m); !t.IsZero() {
		return t.Format(time.RFC3339)
	}
	return ""
}

func (*moment) Type() string { return "time" }

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
