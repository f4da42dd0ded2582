package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/templates"
)

func newLintCommand() *cobra.Command {
	var o offline
	var cases caseFlags
	cmd := &cobra.Command{
		Use:   "lint FILE|DIR...",
		Short: "Check SidecarTemplates without a cluster",
		Long: `Lint compiles each SidecarTemplate and renders it against a minimal and a full
pod: what passes here is what the webhook accepts. Every problem is named with
file, line, template and path. Exit code 1 if there is any.

With --test it also runs the templates' own cases: for a template NAME the folders
testdata/NAME/CASE beside its file, each with a pod.yaml and the want.yaml that
comes of it. docs/template-tests.md says more.`,
		Example: `  pillion lint templates/
  pillion lint templates/ --test`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("lint needs at least one file or directory")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := o.compileOptions(cmd)
			if err != nil {
				return err
			}
			seen := map[string]string{}
			bad := 0
			for _, path := range args {
				manifests, err := readManifests(path)
				if err != nil {
					return err
				}
				for _, m := range manifests {
					if !lint(cmd, m, options, seen) {
						bad++
					}
				}
			}
			if err := cases.run(cmd, args, options); err != nil {
				return err
			}
			if bad > 0 {
				return errRefused
			}
			return nil
		},
	}
	cases.flags(cmd)
	cmd.Flags().StringVar(&o.values, "values", "", "YAML file of the installer's values, which templates read as 'values'")
	cmd.Flags().StringVar(&o.prefix, "annotation-prefix", templates.DefaultPrefix, "prefix of Pillion's annotations")
	return cmd
}

// lint reports on one manifest and returns whether it is good.
func lint(cmd *cobra.Command, m manifest, options templates.Options, seen map[string]string) bool {
	options.Source, options.FirstLine = m.source, m.Line
	t, warnings, err := templates.Compile(m.Manifest, options)
	for _, w := range warnings {
		fmt.Fprintf(cmd.OutOrStdout(), "warning: %s\n", w)
	}
	if err != nil {
		fmt.Fprintln(cmd.OutOrStdout(), err)
		return false
	}
	if other, ok := seen[t.Name()]; ok {
		fmt.Fprintf(cmd.OutOrStdout(), "%s:%d: template %s: the name is taken by %s\n", m.source, m.Line, t.Name(), other)
		return false
	}
	seen[t.Name()] = m.source
	fmt.Fprintf(cmd.OutOrStdout(), "%s: template %s: ok (hash %s)\n", m.source, t.Name(), t.Hash())
	return true
}
