package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/templates/show"
)

// helpWidth is that of an ordinary terminal.
const helpWidth = 80

// writeHelp prints what a command does, its usage, examples, subcommands and flags. No line is
// longer than a terminal is wide.
func writeHelp(cmd *cobra.Command, _ []string) {
	var out strings.Builder
	if cmd.Long != "" { // written as it is printed
		fmt.Fprintln(&out, strings.TrimSpace(cmd.Long))
	} else {
		indented(&out, 0, 0, cmd.Short)
	}
	heading := func(text string) { fmt.Fprintf(&out, "\n%s:\n", text) }
	heading("Usage")
	if cmd.Runnable() && !cmd.HasSubCommands() {
		indented(&out, 2, 6, cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		indented(&out, 2, 6, cmd.CommandPath()+" COMMAND")
	}
	if cmd.Example != "" {
		heading("Examples")
		fmt.Fprintln(&out, cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		heading("Commands")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				indented(&out, 2, 3+sub.NamePadding()+1, fmt.Sprintf("%-*s", sub.NamePadding(), sub.Name()), sub.Short)
			}
		}
	}
	var flags strings.Builder
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			writeFlag(&flags, f)
		}
	})
	if flags.Len() > 0 {
		heading("Flags")
		out.WriteString(flags.String())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "\n'%s COMMAND --help' says more about a command.\n", cmd.CommandPath())
	}
	fmt.Fprint(cmd.OutOrStdout(), out.String())
}

// writeFlag prints a flag on one line, and below it what it means.
func writeFlag(out *strings.Builder, f *pflag.Flag) {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	usage := f.Usage
	if !strings.Contains(usage, "(default") {
		if value := flagDefault(f); value != "" {
			usage += " (default " + value + ")"
		}
	}
	fmt.Fprintln(out, strings.TrimRight("  "+name+" "+takes[f.Value.Type()], " "))
	indented(out, 8, 8, usage)
}

// mostItems is how many items of a default list the help shows; docs/reference/commands.md has all.
const mostItems = 4

// flagDefault returns the default of a flag for people, "" for one that says nothing.
func flagDefault(f *pflag.Flag) string {
	value := strings.Trim(f.DefValue, "[]")
	switch {
	case value == "" || value == "false":
		return ""
	case f.Value.Type() == "duration":
		return plainDuration(value)
	case f.Value.Type() != "stringSlice":
		return value
	}
	items := strings.Split(value, ",")
	if more := len(items) - mostItems; more > 0 {
		items = append(items[:mostItems], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(items, ", ")
}

// plainDuration returns a duration as people write it: 5m for 5m0s. Zero is 0.
func plainDuration(text string) string {
	if text == "0s" {
		return "0"
	}
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// takes names what flags take, by type.
var takes = map[string]string{"string": "TEXT", "stringSlice": "LIST", "duration": "DURATION"}

// indented prints words, broken at the width: the first line begins at one column, the others at
// another. A term stands before the words.
func indented(out *strings.Builder, first, others int, text ...string) {
	lead := strings.Repeat(" ", first)
	if len(text) > 1 {
		lead += text[0]
		lead += strings.Repeat(" ", max(1, others-len([]rune(lead))))
	}
	lines := show.Wrap(text[len(text)-1], helpWidth-max(others, len([]rune(lead))), helpWidth-others)
	fmt.Fprintln(out, strings.TrimRight(lead+lines[0], " "))
	for _, line := range lines[1:] {
		fmt.Fprintf(out, "%*s%s\n", others, "", line)
	}
}
