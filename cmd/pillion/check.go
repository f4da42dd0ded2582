package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/inspect/manifests"
	"github.com/pillion-dev/pillion/templates/show"
)

// checkCommand are the flags of check.
type checkCommand struct {
	where  inspect.Place
	output string
	color  string
	strict bool
	now    time.Time
}

func newCheckCommand() *cobra.Command {
	var c checkCommand
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether an installation is sound, and say what helps",
		Long: `Check looks at the installation with your own rights, and changes nothing: the
API server, Pillion's Deployment and replicas, the rights of its service
account, the objects by which API servers know Pillion, the certificates, the
templates, and the labels of namespaces. It creates one pod by dry run. Each
check has a result:

  ok       all is well
  warning  no harm is done now
  failed   pods are not injected, are refused, or soon will be
  skipped  there is nothing to look at, or you lack the right to look

Below each finding stands the command that helps, as you can run it; replace the
words in capitals. A right that you lack is named with the command that grants
it.

The exit code is 0 if the installation is sound, and 2 for a wrong command line.
It is 1 if a check failed, or you lack the right to look at something. With
--strict warnings and skipped checks count as failed.

The replicas are asked through the API server, by its proxy of pods.`,
		Example: `  pillion check
  pillion check --pillion-namespace sidecars -o json
  pillion check --strict`,
		Args: noArgs,
		RunE: c.run,
	}
	placeFlags(cmd.Flags(), &c.where)
	replicaFlag(cmd.Flags(), &c.where)
	textOrJSON(cmd.Flags(), &c.output)
	cmd.Flags().BoolVar(&c.strict, "strict", false, "warnings and skipped checks count as failed")
	manifests.AddNowFlag(cmd.Flags(), &c.now)
	colourFlag(cmd.Flags(), &c.color)
	return cmd
}

func (c *checkCommand) run(cmd *cobra.Command, _ []string) error {
	cluster, err := openCluster(c.where)
	if err != nil {
		return err
	}
	report := check.Run(cmd.Context(), cluster, version, manifests.TimeOrNow(c.now))
	if c.output == "json" {
		err = writeCheckJSON(cmd.OutOrStdout(), report, c.strict)
	} else {
		err = check.Write(cmd.OutOrStdout(), report, c.strict, styleFor(cmd.OutOrStdout(), c.color).Colour)
	}
	if err == nil && !report.IsSound(c.strict) {
		err = errRefused
	}
	return err
}

// checkReport is what -o json prints.
type checkReport struct {
	// Judged reports whether something failed, or there is the right to look at everything.
	Judged bool `json:"judged"`
	// Sound reports whether all was looked at and nothing failed; with --strict also no warning,
	// nothing skipped.
	Sound  bool                 `json:"sound"`
	Counts map[check.Result]int `json:"counts"`
	Checks []check.Outcome      `json:"checks"`
}

func writeCheckJSON(w io.Writer, r check.Report, strict bool) error {
	report := checkReport{Judged: r.IsConclusive(), Sound: r.IsSound(strict), Counts: map[check.Result]int{}, Checks: r.Outcomes}
	for _, result := range check.Results {
		report.Counts[result] = r.Count(result)
	}
	return show.JSON(w, report)
}
