package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
)

func newUninjectCommand() *cobra.Command {
	var o offline
	var output string
	cmd := &cobra.Command{
		Use:   "uninject -f FILE",
		Short: "Take out of the pods of a file what was injected",
		Long: `Uninject gives the pods of a file back as they were before Pillion changed them, by
the annotation that says what it did. Templates are not needed. Values that somebody
changed since stay, with a warning; a sidecar goes with all that others made of it.
It takes what 'pillion inject' takes; what was not injected passes through. Nothing
is printed on standard output unless every pod could be done.`,
		Example: `  kubectl get pod web -o yaml | pillion uninject -f -
  pillion inject -f deployment.yaml | pillion uninject -f - -o diff`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := writers[output]
			if !ok || output == "patch" {
				return usageError{fmt.Errorf("output %q; allowed are yaml, json, diff", output)}
			}
			documents, err := o.documents(cmd)
			if err != nil {
				return err
			}
			results, err := uninject(cmd, o.file, documents, o.prefix+"/status")
			if err != nil {
				return err
			}
			return write.all(cmd.OutOrStdout(), results)
		},
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "file with pods or workloads, - for standard input (required)")
	cmd.Flags().StringVar(&o.prefix, "annotation-prefix", templates.DefaultPrefix, "prefix of Pillion's annotations")
	cmd.Flags().StringVarP(&output, "output", "o", "yaml", "yaml, json or diff")
	return cmd
}

// uninject does every pod. Warnings and failures, all of them, go to standard
// error.
func uninject(cmd *cobra.Command, file string, documents []workload.Document, statusKey string) ([]result, error) {
	var results []result
	failed := false
	for _, d := range documents {
		r := result{before: d}
		var err error
		r.after, r.pods, err = changePods(file, d, func(p workload.Pod) (map[string]any, error) {
			rec, err := record.Parse(p.Object, statusKey)
			switch {
			case err != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "failed: %s: nobody can tell what was injected: %v\n", p.Owner, err)
				failed = true
				return p.Object, nil
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
