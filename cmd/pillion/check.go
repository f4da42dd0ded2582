package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/check"
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
account, the webhook configurations and their certificates, the templates, the
labels of namespaces, and other programs that change the same pods. Each check
has a result:

  ok       all is well
  warning  no harm is done now
  failed   pods are not injected, are refused, or soon will be
  skipped  there is nothing to look at, or you lack the right to look

Below what is not ok stand the commands that help, as you can run them; replace
the words in capitals. A right that you lack is named with the commands that
grant it.

The exit code is 0 if no check failed, 1 if one did, and 2 for a wrong command
line. It is 3 if none failed and you lack the right to look at something: then
nobody can tell. With --strict warnings and skipped checks count as failed.

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
	nowFlag(cmd.Flags(), &c.now)
	colourFlag(cmd.Flags(), &c.color)
	return cmd
}

func (c *checkCommand) run(cmd *cobra.Command, _ []string) error {
	cluster, err := openCluster(c.where)
	if err != nil {
		return err
	}
	report := check.Run(check.All(), cluster.Facts(cmd.Context(), version, nowOr(c.now)))
	c.where.AimCheck(report)
	if c.output == "json" {
		err = writeCheckJSON(cmd.OutOrStdout(), report, c.strict)
	} else {
		err = check.Write(cmd.OutOrStdout(), report, c.strict, styleFor(cmd.OutOrStdout(), c.color).Colour)
	}
	switch {
	case err != nil:
		return err
	case !report.Judged():
		return errUnjudged
	case !report.Sound(c.strict):
		return errRefused
	}
	return nil
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
	report := checkReport{Judged: r.Judged(), Sound: r.Sound(strict), Counts: map[check.Result]int{}, Checks: r.Outcomes}
	for _, result := range check.Results {
		report.Counts[result] = r.Count(result)
	}
	return show.JSON(w, report)
}
