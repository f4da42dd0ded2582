package main

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/charts"
)

// libraryList is the table of the templates, which go generate writes.
//
//go:embed library.txt
var libraryList string

func newLibraryCommand() *cobra.Command {
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the templates",
		Example: `  pillion library list`,
		Long: `List the templates with their Pod Security Standard and the ports that they add.
The standard is the strictest one that a restricted pod still meets after
injection with only the required parameters set.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), libraryList)
			return err
		},
	}
	show := &cobra.Command{
		Use:               "show NAME",
		Short:             "Print a template's manifest",
		Example:           `  pillion library show fluent-bit`,
		Args:              oneArg("library show takes one template name"),
		ValidArgsFunction: first(fixed(charts.Names())),
		RunE: func(cmd *cobra.Command, args []string) error {
			manifest, err := charts.Template(args[0])
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(manifest)
			return err
		},
	}
	return groupOf("library", "Show the templates that come with Pillion", list, show)
}
