package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pillion-dev/pillion/docs/transcript"
)

//go:generate go test . -run TestTheReferenceOfCommandsIsUpToDate -update

const (
	commandsPage      = "../../docs/reference/commands.md"
	adminCommandsPage = "../../docs/reference/admin-commands.md"
)

// TestTheReferenceOfCommandsIsUpToDate holds docs/reference/commands.md and admin-commands.md to the commands.
func TestTheReferenceOfCommandsIsUpToDate(t *testing.T) {
	all := commands()
	shared := sharedFlags(all)
	const command = "go generate ./cmd/pillion"
	var common, admins strings.Builder
	common.WriteString(commandsIntroduction)
	admins.WriteString(adminCommandsIntroduction)
	for _, cmd := range all {
		switch {
		case cmd.HasSubCommands():
		case cmd.GroupID == "admins":
			writeCommand(&admins, cmd, shared)
		default:
			writeCommand(&common, cmd, shared)
		}
	}
	common.WriteString("\n## Shared flags\n\nSeveral commands have these.\n")
	writeFlags(&common, shared, nil)
	transcript.Generated(t, commandsPage, command, common.String(), *update)
	transcript.Generated(t, adminCommandsPage, command, admins.String(), *update)
}

// commands returns all commands in the order of the help, without those of cobra's own.
func commands() []*cobra.Command {
	var all []*cobra.Command
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" {
				all = append(all, sub)
				add(sub)
			}
		}
	}
	add(newRootCommand("pillion"))
	return all
}

const commandsIntroduction = `# Commands

This page is for teams and authors of templates.
It has the form of each command, examples, and its flags; [admins](admin-commands.md) have more commands.
` + "`pillion COMMAND --help`" + ` says more.
Exit codes are 0 for done, 2 for a wrong command line, and 1 for all else; the help of a command names others.

The same program works as ` + "`kubectl pillion`" + ` where a link to it is called ` + "`kubectl-pillion`" + `.
The server is another program, ` + "`pillion-webhook`" + `, which the chart runs: it takes ` + "`--config FILE`" + `, the settings that the chart renders, and outside of a cluster ` + "`--kubeconfig FILE`" + `.
` + "`pillion completion bash|zsh|fish|powershell`" + ` prints a script for a shell, by which it completes commands, flags, templates and namespaces.
`

const adminCommandsIntroduction = `# Commands of admins

This page is for admins.
It lists commands that look at an installation, and change it.
[The other commands](commands.md) have the rules for all of them.
`

// writeCommand writes the section of a command.
func writeCommand(out *strings.Builder, cmd *cobra.Command, shared []flagRow) {
	fmt.Fprintf(out, "\n## %s\n\n%s.\n\n```text\n%s\n```\n", cmd.CommandPath(), strings.TrimSuffix(cmd.Short, "."), strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	if cmd.Example != "" {
		fmt.Fprintf(out, "\n```sh\n%s\n```\n", unindent(cmd.Example))
	}
	writeFlags(out, flagRows(cmd), shared)
}

func unindent(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "  "))
	}
	return strings.Join(lines, "\n")
}

// A flagRow is a flag in a list of the reference.
type flagRow struct{ name, row string }

// flagRows returns the flags of a command.
func flagRows(cmd *cobra.Command) []flagRow {
	var rows []flagRow
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		rows = append(rows, flagRow{name, fmt.Sprintf("- %s%s: %s\n", name, defaultOf(f), f.Usage)})
	})
	return rows
}

// sharedBy is how many commands have a flag that is listed once for all of them.
const sharedBy = 4

// sharedFlags returns the flags that several commands have in the same words.
func sharedFlags(all []*cobra.Command) (shared []flagRow) {
	count := map[flagRow]int{}
	for _, cmd := range all {
		for _, r := range flagRows(cmd) {
			if count[r]++; count[r] == sharedBy {
				shared = append(shared, r)
			}
		}
	}
	slices.SortFunc(shared, func(a, b flagRow) int { return strings.Compare(a.name, b.name) })
	return shared
}

// writeFlags writes a list of a command's own flags, and the names of those that it shares.
func writeFlags(out *strings.Builder, rows, shared []flagRow) {
	var own, also []string
	for _, r := range rows {
		if slices.Contains(shared, r) {
			also = append(also, r.name)
		} else {
			own = append(own, r.row)
		}
	}
	if len(own) > 0 {
		out.WriteString("\n" + strings.Join(own, ""))
	}
	if len(also) > 0 {
		fmt.Fprintf(out, "\n[Shared](commands.md#shared-flags):\n%s.\n", strings.Join(also, ",\n"))
	}
}

// defaultOf returns the default of a flag in brackets, or nothing.
func defaultOf(f *pflag.Flag) string {
	value := strings.Trim(f.DefValue, "[]")
	if f.Value.Type() == "duration" {
		value = plainDuration(value)
	}
	if value == "" || value == "false" {
		return ""
	}
	if n := strings.Count(value, ",") + 1; n > 10 {
		return fmt.Sprintf(" (default: %d names)", n)
	}
	return " (default `" + value + "`)"
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

// Every command says what it does, with an example that it accepts the flags of.
func TestEveryCommandHasHelpAndAnExample(t *testing.T) {
	for _, cmd := range commands() {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short help %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.HasSubCommands() || cmd.Name() == "version" {
			continue
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			for _, word := range strings.Fields(line) {
				if name, ok := strings.CutPrefix(word, "--"); ok && strings.Contains(line, cmd.CommandPath()+" ") {
					name, _, _ = strings.Cut(name, "=")
					if cmd.Flags().Lookup(name) == nil {
						t.Errorf("%s: its example has --%s, which it does not know", cmd.CommandPath(), name)
					}
				}
			}
		}
	}
}

// Version names the release, and what it works with.
func TestVersionSaysWhatThisPillionWorksWith(t *testing.T) {
	code, out, errs := call(t, "", nil, "version")
	for _, want := range []string{"pillion v0.", "build development", "Kubernetes: 1.35 and later", "Templates:  pillion.dev/v1alpha1", "Replicas:   of the same version"} {
		if code != exitDone || !strings.Contains(out, want) {
			t.Errorf("version says %q (%d %s), without %q", out, code, errs, want)
		}
	}
}
