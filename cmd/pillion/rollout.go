package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/rollout"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// rolloutPoll is how often the cluster is read while a wave is waited for.
const rolloutPoll = time.Second

// rolloutCommand has the flags of the command.
type rolloutCommand struct {
	given offline
	modes map[rollout.Mode]*bool
	// namespace, pods and except narrow what is brought up to date.
	namespace, pods string
	except          []string

	wave    string
	timeout time.Duration
	dryRun  bool
}

func newRolloutCommand() *cobra.Command {
	r := rolloutCommand{modes: map[rollout.Mode]*bool{}}
	cmd := &cobra.Command{
		Use:   "rollout TEMPLATE|NAMESPACE",
		Short: "Bring running pods up to date with the templates in force",
		Long: `Rollout finds the running pods that lack their sidecar, or have another version
of it than they would get now, and brings them up to date in waves: after each
wave it waits until everything is ready again. It stops at the first thing that
goes wrong. To go on where it stopped, run the same command again. A workload
that cannot be restarted (it is paused), or whose disruption budget lets no pod
go, is skipped: rollout does the rest, and then prints the command that leaves
the workload out.

  --evict     evicts pods (the default). Disruption budgets are honoured, and no
              Deployment or other object changes.
  --restart   restarts Deployments, StatefulSets and DaemonSets, as kubectl
              rollout restart does.
  --in-place  gives running pods other images for their native sidecars, where
              nothing else differs. The kubelet restarts these containers only.

The first wave has one pod, the others as many as --wave says; of a workload
never more than its own rolling update takes away at once. Jobs and pods that
nothing replaces are listed, and stay as they are.

Before anything is touched, rollout creates a pod of each workload by dry run.
If the API server refuses it, or returns it without the sidecar, nothing is
touched. Templates, values and prefix are read from Pillion's Deployment, its
ConfigMaps and the cluster, unless one of --library, --templates, --values,
--foreign-sidecars and --annotation-prefix is given: then these flags replace
all of that, except the cluster's SidecarTemplates.

The exit code is 0 if every pod that a workload replaces is up to date, 1 if
not.`,
		Example: `  pillion rollout shop --dry-run
  pillion rollout fluent-bit --in-place
  pillion rollout fluent-bit --restart -n shop --wave 2 --timeout 10m`,
		Args: cobra.MatchAll(oneArg("rollout takes one template or namespace"), func(_ *cobra.Command, args []string) error {
			_, _, err := inspect.ParseTarget(args[0])
			return err
		}),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
		ValidArgsFunction: first(completeTargets),
	}
	f := cmd.Flags()
	for mode, usage := range map[rollout.Mode]string{
		rollout.Evict:       "evict pods (the default)",
		rollout.Restart:     "restart workloads, as kubectl rollout restart does",
		rollout.InPlaceMode: "change the images of native sidecars in running pods, where nothing else differs",
	} {
		r.modes[mode] = f.Bool(string(mode), false, usage)
	}
	placeFlags(f, &r.given.where)
	f.StringVarP(&r.namespace, "namespace", "n", "", "only the pods of this namespace")
	f.StringVar(&r.pods, "pods", "", "label selector of the pods to bring up to date (default: all)")
	f.StringSliceVar(&r.except, "except", nil, "workloads to leave alone, as NAMESPACE/KIND/NAME: shop/deployment/web")
	f.StringVar(&r.wave, "wave", "10%", "size of a wave after the first: a number or a percentage of the pods; with --restart of the workloads")
	f.DurationVar(&r.timeout, "timeout", 5*time.Minute, "how long a wave may take until everything is ready again")
	f.BoolVar(&r.dryRun, "dry-run", false, "print what would happen, and change nothing")
	r.given.templateFlags(cmd)
	return cmd
}

// options reads what needs no cluster.
func (r *rolloutCommand) options(cmd *cobra.Command) (rollout.Options, error) {
	o := rollout.Options{Mode: rollout.Evict, Timeout: r.timeout, Poll: rolloutPoll, DryRun: r.dryRun, Out: show.Writer(cmd.OutOrStdout())}
	chosen := 0
	for mode, is := range r.modes {
		if *is {
			o.Mode = mode
			chosen++
		}
	}
	if chosen > 1 {
		return o, usageError{Err: errors.New("--evict, --restart and --in-place: choose one")}
	}
	var err error
	if o.Wave, err = rollout.ParseWave(r.wave); err != nil {
		return o, usageError{Err: fmt.Errorf("--wave is %q; %w", r.wave, err)}
	}
	if o.Selector, err = labels.Parse(r.pods); err != nil {
		return o, usageError{Err: fmt.Errorf("--pods is %q: %w", r.pods, err)}
	}
	for _, key := range r.except {
		parts := strings.Split(key, "/")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return o, usageError{Err: fmt.Errorf("--except is %q; allowed are workloads as NAMESPACE/KIND/NAME, such as shop/deployment/web", key)}
		}
		if known, ok := inspect.ObjectKindOf(parts[1]); ok {
			parts[1] = known.Kind
		}
		o.Except = append(o.Except, strings.ToLower(strings.Join(parts, "/")))
	}
	o.Command = r.again(cmd)
	if r.timeout <= 0 {
		return o, usageError{Err: fmt.Errorf("--timeout is %s; allowed are positive durations such as 5m", r.timeout)}
	}
	return o, nil
}

// again is the command line without --except.
func (r *rolloutCommand) again(cmd *cobra.Command) string {
	line := cmd.CommandPath() + " " + strings.Join(cmd.Flags().Args(), " ")
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		switch {
		case f.Name == "except":
		case f.Value.Type() == "bool":
			line += " --" + f.Name
		default:
			line += " --" + f.Name + " " + rights.Word(value)
		}
	})
	return line
}

func (r *rolloutCommand) run(cmd *cobra.Command, arg string) error {
	o, err := r.options(cmd)
	if err != nil {
		return err
	}
	cluster, err := openCluster(r.given.where)
	if err != nil {
		return err
	}
	settings, err := r.settings(cmd, cluster)
	if err != nil {
		return err
	}
	live, of, err := cluster.About(cmd.Context(), settings, arg, r.namespace)
	if err != nil {
		return err
	}
	o.Namespace, o.Cluster = of.Namespace, rollout.Connect(cluster.Objects)
	o.Judge = rollout.Judge{Comparer: live.Compare, Templates: settings.Templates, Template: of.Template}
	return rollout.Run(cmd.Context(), o)
}

// settings returns the server's settings, or those of the flags if one of them is given.
func (r *rolloutCommand) settings(cmd *cobra.Command, cluster *inspect.Cluster) (inspect.Settings, error) {
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	if !slices.ContainsFunc([]string{"library", "templates", "values", "foreign-sidecars", "annotation-prefix"}, given) {
		return cluster.Settings(cmd.Context(), "; or give --library, --templates, --values, --foreign-sidecars and --annotation-prefix")
	}
	s := inspect.Settings{Prefix: r.given.prefix, Excluded: append(slices.Clone(defaultExcluded), r.given.where.Namespace)}
	compile, err := r.given.compileOptions(cmd)
	if err != nil {
		return s, err
	}
	entries, err := r.given.entries(compile, r.given.library)
	if err != nil {
		return s, err
	}
	own, err := cluster.ClusterTemplates(cmd.Context(), compile)
	if err != nil {
		return s, err
	}
	for _, e := range own.All() {
		if _, taken := entries[e.Name]; !taken {
			entries[e.Name] = e
		}
	}
	s.Templates = cluster.NamespacedTemplates(cmd.Context(), templates.NewSet(slices.Collect(maps.Values(entries))), compile)
	return s, nil
}
