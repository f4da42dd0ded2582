package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// helpWidth is that of an ordinary terminal.
	helpWidth = 80
	// mostItems is how many items of a default list the help shows; values.yaml of the chart has all.
	mostItems = 4
)

// writeCommands prints the subcommands of a group. It prints nothing for a group without any.
func writeCommands(out io.Writer, cmd *cobra.Command, group, title string) {
	heading := "\n" + title + "\n"
	for _, sub := range cmd.Commands() {
		if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
			fmt.Fprintf(out, "%s  %-*s %s\n", heading, sub.NamePadding(), sub.Name(), sub.Short)
			heading = ""
		}
	}
}

// writeHelp prints the description of a command, its usage, examples, subcommands and flags.
func writeHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n", cmp.Or(strings.TrimSpace(cmd.Long), cmd.Short), usage)
	if cmd.Example != "" {
		fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range cmd.Groups() {
		writeCommands(out, cmd, group.ID, group.Title)
	}
	rest := "Commands:"
	if len(cmd.Groups()) > 0 {
		rest = "For everybody:"
	}
	writeCommands(out, cmd, "", rest)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if items := strings.Split(f.DefValue, ","); len(items) > mostItems {
			f.DefValue = fmt.Sprintf("%s and %d more]", strings.Join(items[:mostItems], ", "), len(items)-mostItems)
		}
	})
	fmt.Fprintf(out, "\nFlags:\n%s", cmd.Flags().FlagUsagesWrapped(helpWidth))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(out, "\n'%s COMMAND --help' says more about a command.\n", cmd.CommandPath())
	}
}
