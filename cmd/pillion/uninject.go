package main

import (
	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/inspect/manifests"
)

func newUninjectCommand() *cobra.Command {
	var src source
	var output string
	cmd := &cobra.Command{
		Use:   "uninject -f FILE",
		Short: "Remove the injected parts from the pods of a file",
		Long: `Uninject prints the pods of a file as they were before Pillion changed them. It
needs no templates: the status annotation has the record of the changes. Values
that somebody changed since stay, with a warning. A sidecar is removed with all
changes that others made to it, and so are Pillion's labels. It takes the same
files as 'pillion inject'. Pods without a record pass through. Nothing is
printed on standard output unless it works for every pod.`,
		Example: `  kubectl get pod web -o yaml | pillion uninject -f -
  pillion inject -f deployment.yaml | pillion uninject -f - -o diff`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			documents, err := src.documents(cmd)
			if err != nil {
				return err
			}
			report, err := manifests.Uninject(src.file, documents)
			return writeReport(cmd, report, err, writers[output])
		},
	}
	cmd.Flags().StringVarP(&src.file, "filename", "f", "", "file with pods or workloads, - for standard input")
	outputFlag(cmd.Flags(), &output, "yaml", "yaml, json or diff", "yaml", "json", "diff")
	return cmd
}
