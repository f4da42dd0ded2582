package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates/show"
)

// proofLimit bounds the one request of a proof.
const proofLimit = 30 * time.Second

func newProveCommand() *cobra.Command {
	var p inspect.Proof
	var where inspect.Place
	var excluded []string
	var output string
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "Prove that a cluster's pods go through Pillion",
		Long: `Prove sends one pod to the API server by dry run, so nothing is created. The pod
comes back injected, or with a warning of Pillion's, or with neither. Neither is
an error: the API server does not reach Pillion, or its configuration does not
name Pillion. A refused pod is an error, too; the error says whether Pillion
refused it.

Without --namespace the pod is for the proof namespace of the installation, and
asks for the template pillion-proof, which is there for this only: the sidecar
has to come back. A second pod lacks the sidecar of a required template: it has
to be refused, if required templates are verified. You need the permission to
list namespaces. Without a proof namespace, which is what
enforcement.mode=Manual gives, the pod is for the namespace default.

With --namespace the pod has the annotation pillion.dev/inject: "true". With
--inject= (empty) it has no such annotation, and with --inject=NAMES it asks for
these templates.

After that, one more pod asks for each template that a namespace names. It is an
error if there is no such template, because pods of that namespace are refused.
You need the permission to list namespaces. Without it, prove says which of
these checks it left out.

With -o json, each thing that is proven comes with the record that Pillion put
into the pod.`,
		Example: `  pillion prove
  pillion prove --namespace shop --inject=`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.Cluster, err = openCluster(where); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), proofLimit, fmt.Errorf("no answer after %s", proofLimit))
			defer cancel()
			if p.In == "" {
				if err := p.Find(ctx, cmd.Flags().Changed("inject")); err != nil {
					return err
				}
			}
			proven, err := p.Run(ctx, excluded)
			if output == "json" {
				return cmp.Or(err, show.JSON(cmd.OutOrStdout(), proveReport{Proven: append([]inspect.Proven{}, proven...)}))
			}
			for _, one := range proven {
				fmt.Fprintln(show.Writer(cmd.OutOrStdout()), one.Says)
			}
			return err
		},
	}
	f := cmd.Flags()
	clusterFlags(f, &where)
	f.StringVarP(&p.In, "namespace", "n", "", "namespace of the pod; Pillion must not be excluded from it (default: the proof namespace)")
	f.StringVar(&p.Inject, "inject", "true", "value of the pod's annotation PREFIX/inject; empty: no annotation")
	f.StringVar(&p.Prefix, "annotation-prefix", "pillion.dev", "prefix of the annotations")
	f.StringSliceVar(&excluded, "excluded-namespaces", defaultExcluded, "namespaces whose annotations name no template")
	textOrJSON(f, &output)
	return cmd
}

// proveReport is what -o json prints.
type proveReport struct {
	Proven []inspect.Proven `json:"proven"`
}
