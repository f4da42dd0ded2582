package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
)

func newLibraryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "library",
		Short: "The templates that come with Pillion",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List the templates",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tDESCRIPTION")
			for _, name := range library.Names() {
				t, err := libraryTemplate(name, templates.Options{})
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s\t%s\n", name, t.Spec().Description)
			}
			return w.Flush()
		},
	}, &cobra.Command{
		Use:   "show NAME",
		Short: "Print a template's manifest",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("library show takes one template name, got %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			manifest, err := library.Get(args[0])
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(manifest)
			return err
		},
	})
	return cmd
}

func libraryTemplate(name string, o templates.Options) (*templates.Template, error) {
	manifest, err := library.Get(name)
	if err != nil {
		return nil, err
	}
	o.Source = "library/" + name
	t, _, err := templates.Compile(manifest, o)
	return t, err
}
