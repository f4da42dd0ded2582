package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// choice is the value of a flag that takes one of a few.
type choice struct {
	to      *string
	allowed []string
}

func (c choice) String() string { return *c.to }
func (c choice) Type() string   { return "string" }

// Set implements [pflag.Value].
func (c choice) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return errors.New("allowed are " + strings.Join(c.allowed, ", "))
	}
	*c.to = text
	return nil
}

// outputFlag adds -o with the default value. The usage names the allowed values.
func outputFlag(f *pflag.FlagSet, to *string, value, usage string, allowed ...string) {
	*to = value
	f.VarP(choice{to, allowed}, "output", "o", usage)
}

// textOrJSON adds -o to a command that prints text for people.
func textOrJSON(f *pflag.FlagSet, to *string) {
	outputFlag(f, to, "text", "text or json", "text", "json")
}
