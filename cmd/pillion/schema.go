package main

import (
	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/offline/schema"
)

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of SidecarTemplates, for editors",
		Long: `Schema prints a JSON Schema (draft-07) of SidecarTemplates, with the directives
and with ${…} where a value of the pod may be one. Editors complete fields by
it, show what they mean, and mark mistakes. 'pillion lint' finds more: it
compiles the expressions.`,
		Example: `  pillion schema > sidecartemplate.schema.json`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(schema.JSON)
			return err
		},
	}
}
