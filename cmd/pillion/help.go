package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// helpWidth is that of an ordinary terminal.
	helpWidth = 80
	// mostItems is how many items of a default list the help shows; docs/reference/commands.md has all.
	mostItems = 4
)

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
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(out, "\nCommands:\n")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			fmt.Fprintf(out, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
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
