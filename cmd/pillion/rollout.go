package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/rollout"
	"github.com/pillion-dev/pillion/templates/show"
)

// rolloutPoll is how often the cluster is read while something is waited for.
const rolloutPoll = time.Second

// rolloutCommand has the flags of the command.
type rolloutCommand struct {
	where                    inspect.Place
	namespace                string
	restart, inPlace, dryRun bool
	timeout                  time.Duration
}

func newRolloutCommand() *cobra.Command {
	var r rolloutCommand
	cmd := &cobra.Command{
		Use:   "rollout TEMPLATE|NAMESPACE",
		Short: "Bring running pods up to date with the templates in force",
		Long: `Rollout finds the running pods that lack their sidecar, or have another version
of it than they would get now, and brings them up to date, one workload after
the other. It waits until a workload is ready again before it goes on, and stops
at the first thing that goes wrong. To go on where it stopped, run the same
command again.

  --restart   restarts Deployments, StatefulSets and DaemonSets, as kubectl
              rollout restart does (the default). How many pods are away at once
              is for each workload's own rolling update to say.
  --in-place  gives running pods other images for their native sidecars, one pod
              after the other, where nothing else differs. The kubelet restarts
              these containers only.

Pods that it does not reach are listed, with the reason: bare pods, Jobs,
DaemonSets and StatefulSets with the update strategy OnDelete, paused
Deployments.

Before anything is touched, rollout creates a pod of each workload by dry run. A
workload whose pod the API server refuses, or returns without the sidecar, is
listed, and stays as it is.

The exit code is 0 if every pod that a workload replaces is up to date, 1 if
not.`,
		Example: `  pillion rollout shop --dry-run
  pillion rollout fluent-bit --in-place
  pillion rollout fluent-bit -n shop --timeout 10m`,
		Args: cobra.MatchAll(oneArg("rollout takes one template or namespace"), func(_ *cobra.Command, args []string) error {
			_, _, err := inspect.ParseTarget(args[0])
			return err
		}),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
		ValidArgsFunction: first(completeTargets),
	}
	f := cmd.Flags()
	placeFlags(f, &r.where)
	f.StringVarP(&r.namespace, "namespace", "n", "", "only the pods of this namespace")
	f.BoolVar(&r.restart, string(rollout.Restart), false, "restart workloads, as kubectl rollout restart does (the default)")
	f.BoolVar(&r.inPlace, string(rollout.InPlaceMode), false, "change the images of native sidecars in running pods, where nothing else differs")
	f.DurationVar(&r.timeout, "timeout", 5*time.Minute, "how long one workload, or with --in-place one pod, may take until it is ready again")
	f.BoolVar(&r.dryRun, "dry-run", false, "print what would happen, and change nothing")
	return cmd
}

func (r *rolloutCommand) run(cmd *cobra.Command, arg string) error {
	if r.restart && r.inPlace {
		return usageError{Err: errors.New("--restart and --in-place: choose one")}
	}
	if r.timeout <= 0 {
		return usageError{Err: fmt.Errorf("--timeout is %s; allowed are positive durations such as 5m", r.timeout)}
	}
	cluster, err := openCluster(r.where)
	if err != nil {
		return err
	}
	settings, err := cluster.Settings(cmd.Context())
	if err != nil {
		return err
	}
	live, of, err := cluster.Resolve(cmd.Context(), settings, arg, r.namespace)
	if err != nil {
		return err
	}
	o := rollout.Options{
		Cluster: rollout.Connect(cluster.Objects), Comparer: live.Compare, Templates: settings.Templates, Template: of.Template, Namespace: of.Namespace,
		Mode: rollout.Restart, Timeout: r.timeout, Poll: rolloutPoll, DryRun: r.dryRun, Out: show.Writer(cmd.OutOrStdout()),
	}
	if r.inPlace {
		o.Mode = rollout.InPlaceMode
	}
	return rollout.Run(cmd.Context(), o)
}
