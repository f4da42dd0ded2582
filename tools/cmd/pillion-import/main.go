// Command pillion-import converts the configuration of another injector into SidecarTemplates.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/tools/migrate"
)

// version is set when the binary is linked.
var version = "development"

func main() {
	cmd := newCommand()
	cmd.SetErr(show.Writer(os.Stderr))
	if err := cmd.Execute(); err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "pillion-import: %v\n", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pillion-import FILE",
		Short: "Convert another injector's configuration into SidecarTemplates",
		Long: `Pillion-import reads the configuration of another injector, - for standard
input, and prints SidecarTemplates: configurations of tumblr's
k8s-sidecar-injector, OpenKruise's SidecarSets, Istio's custom injection
templates, Kyverno's ClusterPolicies, and MutatingAdmissionPolicies.

What has no counterpart is listed on standard error, with what to do. A template
is suspended where it cannot be said which pods get it. docs/how-to/migrate.md
has a table for each format. Then check the result with 'pillion lint'.

The exit code is 1 if nothing could be imported.`,
		Example: `  pillion-import sidecarset.yaml > templates.yaml && pillion lint templates.yaml
  kubectl get sidecarsets -o yaml | pillion-import -`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("it takes one file, or - for standard input; got %d. See 'pillion-import --help'", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			documents, err := manifests.ReadDocuments(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			templates, notes := migrate.Import(documents)
			for _, n := range notes {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", n)
			}
			if len(templates) == 0 {
				return errors.New("no part of it could be imported")
			}
			return write(cmd, templates)
		},
	}
}

// write prints all templates, or none if one cannot be written.
func write(cmd *cobra.Command, templates []map[string]any) error {
	var out bytes.Buffer
	for i, template := range templates {
		text, err := workload.YAML(template)
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.WriteString(text)
	}
	_, err := cmd.OutOrStdout().Write(out.Bytes())
	return err
}
