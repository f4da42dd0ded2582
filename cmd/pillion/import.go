package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/offline/migrate"
	"github.com/pillion-dev/pillion/offline/workload"
)

func newImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Convert another injector's configuration into SidecarTemplates",
		Long: `Import reads the configuration of another injector, - for standard input, and
prints SidecarTemplates: configurations of tumblr's k8s-sidecar-injector,
OpenKruise's SidecarSets, Istio's custom injection templates, Kyverno's
ClusterPolicies, and MutatingAdmissionPolicies.

What has no counterpart is listed on standard error, with what to do. A template
is suspended where it cannot be said which pods get it. docs/how-to/migrate.md
has a table for each format. Then check the result with 'pillion lint'.

The exit code is 1 if nothing could be imported.`,
		Example: `  pillion import sidecarset.yaml > templates.yaml && pillion lint templates.yaml
  kubectl get sidecarsets -o yaml | pillion import -`,
		Args:              oneArg("import takes one file, or - for standard input"),
		ValidArgsFunction: anyFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			documents, err := readDocuments(cmd, args[0])
			if err != nil {
				return err
			}
			made, notes := migrate.Import(documents)
			for _, n := range notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", n)
			}
			if len(made) == 0 {
				return errors.New("no part of it could be imported")
			}
			var out bytes.Buffer
			for i, template := range made {
				text, err := workload.YAML(template)
				if err != nil {
					return err
				}
				if i > 0 {
					out.WriteString("---\n")
				}
				out.WriteString(text)
			}
			_, err = cmd.OutOrStdout().Write(out.Bytes())
			return err
		},
	}
}
