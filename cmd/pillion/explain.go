package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates/show"
)

// explainCommand has the flags of the command.
type explainCommand struct {
	source source
	output string
	colour string
}

func newExplainCommand() *cobra.Command {
	var c explainCommand
	cmd := &cobra.Command{
		Use:   "explain pod/NAME | deploy/NAME | ns/NAME | -f FILE",
		Short: "Say why a pod gets its sidecars, or does not",
		Long: `Explain shows each rule of the decision with its input and its result, each
parameter with the level that it came from, what is merged where, and which
values of the pod win.

  pod/NAME     a pod that exists, compared with the pod that would be created
               in its place (injected already, outdated, missing), and whether
               Pillion was called for it
  deploy/NAME  the pod that a workload creates, with the API server's own answer
               to it by dry run; whether its running pods are up to date; and
               the newest event of a pod that could not be created. Also sts,
               ds, rs, rc, job and cj. As in kubectl, 'deploy NAME' says the
               same
  ns/NAME      a namespace: its label and annotations, and what a plain pod gets
               there
  -f FILE      the pods of a file, by files alone: --templates, --values,
               --namespace-file. With --cluster, by the cluster's templates,
               values and namespaces

A cluster is read with your own rights. Templates, values and scope are the
server's, from the SidecarTemplates and Pillion's ConfigMap. Where you may not
read them, explain takes the templates that the API shows, asks the API server
for a dry run of the pod, and says what is missing and which command grants it.

The exit code is 1 if a pod is refused, or would be if it were created now.`,
		Example: `  pillion explain -n shop deploy/web
  pillion explain -n shop pod/web-5d8f7c9b6-x2x9q -o json
  pillion explain ns/shop
  pillion explain -f deployment.yaml --namespace-file namespace.yaml
  pillion explain --cluster -n shop -f deployment.yaml`,
		RunE: c.run,
	}
	c.source.podFlags(cmd)
	c.source.clusterFlag(cmd)
	textOrJSON(cmd.Flags(), &c.output)
	colourFlag(cmd.Flags(), &c.colour)
	return cmd
}

func (c *explainCommand) run(cmd *cobra.Command, args []string) error {
	targets, err := inspect.ParseObjects(args)
	if err != nil {
		return err
	}
	var report explain.Report
	switch {
	case len(targets) > 0 && c.source.file != "":
		return usageError{Err: fmt.Errorf("-f %s and %s: give one of both", c.source.file, args[0])}
	case len(targets) > 0:
		var live *inspect.Live
		if live, err = c.source.connect(cmd); err == nil {
			report, err = live.Explain(cmd.Context(), targets)
		}
	case c.source.file == "":
		return usageError{Err: errors.New("name what to explain: pod/NAME, deploy/NAME, ns/NAME or -f FILE")}
	default:
		report, err = c.files(cmd)
	}
	if err != nil {
		return err
	}
	c.source.place.AddFlags(report)
	if report.Notes == nil {
		report.Notes = []explain.Note{}
	}
	if c.output == "json" {
		err = show.JSON(cmd.OutOrStdout(), report)
	} else {
		err = report.Text(cmd.OutOrStdout(), styleFor(cmd.OutOrStdout(), c.colour))
	}
	if err == nil && report.Refused() {
		err = errRefused
	}
	return err
}

// files explains the pods of a file.
func (c *explainCommand) files(cmd *cobra.Command) (explain.Report, error) {
	report := explain.Report{Pods: []explain.Pod{}}
	s, err := c.source.open(cmd)
	if err != nil {
		return report, err
	}
	for _, d := range s.Documents {
		_, _, err := manifests.ChangePods(s.File, d, func(p workload.Pod) (map[string]any, error) {
			explained, err := s.ExplainFile(cmd.Context(), p)
			if err == nil {
				report.Pods = append(report.Pods, explained)
			}
			return p.Object, err
		})
		if err != nil {
			return report, err
		}
	}
	for _, mistake := range s.UnreportedMistakes() {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", mistake)
	}
	if len(report.Pods) == 0 {
		return report, fmt.Errorf("reading %s: there is neither a pod nor a workload in it", c.source.file)
	}
	if s.Live != nil {
		report.Notes = s.Live.Notes()
	}
	return report, nil
}
