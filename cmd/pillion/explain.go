package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/workload"
)

func newExplainCommand() *cobra.Command {
	var o offline
	cmd := &cobra.Command{
		Use:   "explain -f FILE",
		Short: "Say why a pod gets its sidecars, or does not",
		Long: `Explain shows, for each pod of a file, every rule that was looked at, its input
and its result, and what becomes of each template. Give the pod's namespace with
--namespace-file: its annotations take part.`,
		Example: `  kubectl get ns shop -o yaml >ns.yaml
  kubectl -n shop get pod web -o yaml | pillion explain -f - --namespace-file ns.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.open(cmd)
			if err != nil {
				return err
			}
			pods := 0
			for _, d := range s.documents {
				_, n, err := workload.Change(d.Object, func(p workload.Pod) (map[string]any, error) {
					out, err := s.run(p)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", p.Owner, err)
					}
					return p.Object, explain(cmd.OutOrStdout(), p, s.namespaces.of(p.Namespace).Name, out)
				})
				if err != nil {
					return err
				}
				pods += n
			}
			if pods == 0 {
				return fmt.Errorf("reading %s: there is no pod, and nothing with a pod template, in it", o.file)
			}
			return nil
		},
	}
	o.podFlags(cmd)
	return cmd
}

func explain(w io.Writer, p workload.Pod, namespace string, out injector.Outcome) error {
	verdict := "admitted as it is"
	switch {
	case !out.Allowed:
		verdict = "refused"
	case len(out.Operations) > 0:
		verdict = "injected"
	case out.Code == "Injected":
		verdict = "injected already, nothing to change"
	}
	fmt.Fprintf(w, "%s in namespace %s: %s (%s)\n", p.Owner, namespace, verdict, out.Code)
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "  RULE\tINPUT\tRESULT")
	for _, s := range out.Steps {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", s.Rule, s.Input, s.Result)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, t := range out.Templates {
		if len(t.Params) == 0 {
			continue
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(t.Params)) {
			list = append(list, fmt.Sprintf("%s=%v (%s)", name, t.Params[name], t.Origins[name]))
		}
		fmt.Fprintf(w, "  parameters of %s: %s\n", t.Name, strings.Join(list, ", "))
	}
	for _, warning := range out.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", warning)
	}
	if !out.Allowed {
		fmt.Fprintf(w, "  refused: %s\n", out.Message)
	}
	return nil
}
