package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

func newUninjectCommand() *cobra.Command {
	var o offline
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
			documents, err := o.documents(cmd)
			if err != nil {
				return err
			}
			results, err := uninject(cmd, o.file, documents, v1alpha1.StatusKey)
			if err != nil {
				return err
			}
			return writers[output].all(cmd.OutOrStdout(), results)
		},
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "file with pods or workloads, - for standard input")
	outputFlag(cmd.Flags(), &output, "yaml", "yaml, json or diff", "yaml", "json", "diff")
	return cmd
}

// uninject takes the injected parts out of every pod. All warnings and failures go to
// standard error.
func uninject(cmd *cobra.Command, file string, documents []workload.Document, statusKey string) ([]result, error) {
	var results []result
	failed := false
	for _, d := range documents {
		r := result{before: d}
		var err error
		r.after, r.pods, err = changePods(file, d, func(p workload.Pod) (map[string]any, error) {
			rec, err := record.Parse(p.Object)
			switch {
			case err != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "failed: %s: the record of what was injected cannot be read: %v\n", p.Owner, err)
				failed = true
				return p.Object, nil
			case rec.Empty() && len(rec.Untrue(p.Object)) > 0:
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: it has no annotation %s, so it was not injected: only Pillion's labels are removed\n", p.Owner, statusKey)
				r.changed = true
				return rec.Base(p.Object), nil
			case rec.Empty():
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: it has no annotation %s, so it was not injected and stays as it is\n", p.Owner, statusKey)
				return p.Object, nil
			}
			pod, warnings := rec.Uninject(p.Object)
			for _, w := range warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s\n", p.Owner, w)
			}
			r.changed = true
			return pod, nil
		})
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	if failed {
		return nil, errRefused
	}
	return results, nil
}
