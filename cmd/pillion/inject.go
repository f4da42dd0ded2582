package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/inspect/manifests"
)

func newInjectCommand() *cobra.Command {
	var src source
	var output string
	var record bool
	cmd := &cobra.Command{
		Use:   "inject -f FILE",
		Short: "Inject sidecars into the pods of a file",
		Long: `Inject does to the pods of a file what the webhook does to them in a cluster,
with the same functions. It takes YAML or JSON with several documents: pods,
anything with a pod template, and lists; the rest passes through. Nothing is
printed on standard output unless every pod could be injected.

With --cluster, templates and values are the server's there, and
namespaces with their annotations are read live, with your own rights. Nothing
in the cluster changes.`,
		Example: `  pillion inject -f deployment.yaml --namespace-file namespace.yaml
  kubectl get pod web -o yaml | pillion inject -f - -o diff
  pillion inject --cluster -n shop -f deployment.yaml -o diff`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := src.open(cmd)
			if err != nil {
				return err
			}
			if err := checkRead(cmd.ErrOrStderr(), s); err != nil {
				return err
			}
			write := writers[output]
			if output == "diff" && !record {
				write = writeShortDiff
			}
			report, err := s.Inject(cmd.Context())
			return writeReport(cmd, report, err, write)
		},
	}
	src.podFlags(cmd)
	src.clusterFlag(cmd)
	outputFlag(cmd.Flags(), &output, "yaml", "yaml, json, patch (the JSON patch of each pod) or diff", "yaml", "json", "patch", "diff")
	cmd.Flags().BoolVar(&record, "record", false, "with -o diff: show the record of the injection, too")
	return cmd
}

// checkRead writes a note for each object of the cluster that cannot be read. It returns an error if the pods
// depend on such an object: a manifest without a sidecar must not look as if its pods need no sidecar.
func checkRead(w io.Writer, s *manifests.Session) error {
	if s.Live == nil {
		return nil
	}
	for _, note := range s.Live.Notes() {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	if s.Namespaces.Unread() || !s.Live.AllExact {
		return errors.New("you lack the rights to read the settings and templates; let the API server inject pods instead: kubectl apply --dry-run=server -f FILE -o yaml")
	}
	return nil
}
