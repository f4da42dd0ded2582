package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/state"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// statusCommand are the flags of status.
type statusCommand struct {
	where inspect.Place
	// namespace narrows what is said of pods, "" for all.
	namespace, output string
}

func newStatusCommand() *cobra.Command {
	var c statusCommand
	cmd := &cobra.Command{
		Use:   "status [TEMPLATE|NAMESPACE]",
		Short: "Show the state of Pillion in a cluster: what is missing, which pods lack a sidecar, and when certificates expire",
		Long: `Status asks every replica, through the API server, reads the webhook configurations,
and compares the running pods with what they would get if they were created now. You
need the permissions to list pods in Pillion's namespace, to get pods/proxy there, and
to list webhook configurations; for the pods, to read Pillion's Deployment and
ConfigMaps and the SidecarTemplates, and to list namespaces, pods and events. A missing
one is named, with the command that grants it. The exit code is 1 if something is
missing in the installation, or cannot be read; pods that lack a sidecar do not count
for it.

With the name of a namespace, or -n, status shows its pods by workload; with the name
of a template, what concerns the template. ns/NAME and sct/NAME say which is meant.

A pod is missing a template that a new pod would get. It is outdated if it has a template
in another version than the one in force, or if a new pod would get other parameters.
Pods that have ended, pods that opt out, and pods of namespaces in which Pillion is not
called are neither. What was refused lately is from Pillion's events, which API servers
keep for an hour.

The replicas are the running pods of the namespace with a container called pillion.
Pods that are being deleted are left out; pods that do not run are named. If two
releases share a namespace, --pillion-selector tells their pods apart. The output lists the webhook
configurations that the replicas name, and all others that call the same Service.`,
		Example: `  pillion status
  pillion status shop
  pillion status sct/fluent-bit -o json
  pillion status fluent-bit -n shop
  pillion status --pillion-namespace sidecars
  pillion status --replica http://127.0.0.1:8080   # after kubectl port-forward`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes one template or namespace, got %q", cmd.CommandPath(), args)}
			}
			if len(args) == 0 {
				return nil
			}
			_, _, err := inspect.ParseTarget(args[0])
			return err
		},
		RunE: c.run,
	}
	placeFlags(cmd.Flags(), &c.where)
	replicaFlag(cmd.Flags(), &c.where)
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "only the pods of this namespace")
	textOrJSON(cmd.Flags(), &c.output)
	return cmd
}

// statusReport is what -o json prints.
type statusReport struct {
	// Sound reports whether nothing is missing in the installation.
	Sound    bool     `json:"sound"`
	Problems []string `json:"problems"`
	// Warnings are about what does no harm now.
	Warnings []string `json:"warnings,omitempty"`
	// Target is what the argument names, as sct/NAME or ns/NAME.
	Target         string                `json:"target,omitempty"`
	Replicas       []state.Replica       `json:"replicas"`
	Configurations []configurationReport `json:"configurations,omitempty"`
	Canaries       []canaryReport        `json:"canaries,omitempty"`
	Pods           *inspect.PodsReport   `json:"pods,omitempty"`
	// PodsUnknown says why no pods were compared.
	PodsUnknown string `json:"podsUnknown,omitempty"`
	// Notes say where what follows may be wrong.
	Notes []string `json:"notes,omitempty"`
	// Next are the commands to run next.
	Next []string `json:"next"`
}

// configurationReport is one webhook configuration.
type configurationReport struct {
	Kind       string   `json:"kind"`
	Name       string   `json:"name"`
	Exists     bool     `json:"exists"`
	VerifiedBy int      `json:"verifiedBy"`
	Replicas   int      `json:"replicas"`
	Entries    []string `json:"entries"`
	// TrustedCAs counts the certificates in the caBundle of each entry.
	TrustedCAs map[string]int `json:"trustedCAs"`
}

func (c *statusCommand) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	cluster, err := openCluster(c.where)
	if err != nil {
		return err
	}
	if err := cluster.Answers(ctx); err != nil {
		return err
	}
	replicas, notRunning, err := cluster.FindReplicas(ctx)
	if err != nil {
		return err
	}
	live, of, err := c.target(ctx, cluster, args)
	var pods inspect.PodsReport
	if err == nil {
		pods, err = live.ComparePods(ctx, of)
	}
	if err != nil && (len(args) > 0 || c.namespace != "") {
		return err
	}
	all := inspect.AskAll(ctx, replicas)
	r := statusReport{Problems: append([]string{}, inspect.Problems(c.where.Namespace, all)...), Warnings: append(inspect.Warnings(all), notRunning...), Target: of.String(), Next: []string{}}
	if of.Namespace == "" {
		var set *templates.Set
		if live != nil {
			set = live.Templates
		}
		r.Canaries = canariesOf(all, set, of.Template)
	}
	if err == nil {
		r.Pods, r.Next, r.Notes = &pods, append(r.Next, pods.Next(of)...), inspect.Skew(all, live.Templates, version)
	} else {
		r.PodsUnknown = rights.Named(err).Error()
	}
	if c.output == "json" {
		return r.writeJSON(ctx, cmd.OutOrStdout(), cluster, all, of)
	}
	return r.write(ctx, show.Writer(cmd.OutOrStdout()), cluster, all, notRunning, of)
}

// target returns the cluster with the server's settings, and what the arguments are about there.
func (c *statusCommand) target(ctx context.Context, cluster *inspect.Cluster, args []string) (live *inspect.Live, of inspect.Target, err error) {
	settings, err := cluster.Settings(ctx, "")
	if err != nil {
		return nil, of, err
	}
	if len(args) > 0 {
		if of, err = cluster.FindTarget(ctx, args[0], settings.Templates); err != nil {
			return nil, of, err
		}
	}
	of, err = of.In(c.namespace)
	return cluster.By(settings, cluster.Kubernetes(ctx)), of, err
}

// write prints the report for people. It returns errRefused if something is missing or fails, or the
// pods are not known.
func (r statusReport) write(ctx context.Context, out io.Writer, cluster *inspect.Cluster, all []state.Replica, notRunning []string, of inspect.Target) error {
	for _, line := range notRunning {
		fmt.Fprintln(out, line)
	}
	result := error(nil)
	if of.String() == "" {
		if result = status(ctx, out, cluster, all); result != nil && result != errRefused {
			return result
		}
	} else {
		for _, line := range r.Problems {
			fmt.Fprintln(out, line)
			result = errRefused
		}
		if of.Template != "" {
			if err := writeTemplates(out, all, of.Template); err != nil {
				return err
			}
		}
	}
	if err := writeCanaries(out, r.Canaries); err != nil {
		return err
	}
	if r.Pods == nil {
		fmt.Fprintf(out, "\npods: not compared: %s\n", r.PodsUnknown)
		return errRefused
	}
	if of.Namespace == "" {
		fmt.Fprintln(out)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(out, "note:", note)
	}
	if err := r.Pods.Write(out, of); err != nil {
		return err
	}
	return result
}

// status prints what the replicas answered, and the configurations. It returns errRefused if
// something is missing or fails.
func status(ctx context.Context, w io.Writer, cluster *inspect.Cluster, all []state.Replica) error {
	problems := inspect.Problems(cluster.Namespace, all)
	for _, line := range slices.Concat(problems, inspect.Warnings(all)) {
		fmt.Fprintln(w, line)
	}
	if len(all) == 0 {
		return errRefused
	}
	complete, err := certificateStatus(ctx, w, cluster, all, time.Now())
	if err != nil {
		return err
	}
	if err := writeReplicas(w, all); err != nil {
		return err
	}
	if len(problems) > 0 || !complete {
		return errRefused
	}
	return nil
}

// writeJSON prints everything as one object.
func (r statusReport) writeJSON(ctx context.Context, w io.Writer, cluster *inspect.Cluster, all []state.Replica, of inspect.Target) error {
	r.Sound = len(r.Problems) == 0
	r.Replicas = append([]state.Replica{}, all...)
	if of == (inspect.Target{}) {
		configurations, err := configurationsOf(ctx, cluster, all)
		if err != nil {
			return err
		}
		r.Sound = r.Sound && complete(configurations, all)
		for _, one := range configurations {
			r.Configurations = append(r.Configurations, one.report(all))
		}
	}
	if err := show.JSON(w, r); err != nil {
		return err
	}
	if !r.Sound || r.Pods == nil {
		return errRefused
	}
	return nil
}

func (c configuration) report(replicas []state.Replica) configurationReport {
	verified, of := c.verified(replicas)
	r := configurationReport{Kind: c.kind, Name: c.name, Exists: c.exists, VerifiedBy: verified, Replicas: of, Entries: []string{}, TrustedCAs: map[string]int{}}
	for _, e := range c.entries {
		r.Entries = append(r.Entries, e.Name)
		r.TrustedCAs[e.Name] = len(trustedCAs(e.ClientConfig.CABundle))
	}
	return r
}

// writeReplicas prints the templates that the replicas apply, and what else they say of
// themselves: the ages of their caches, and whether they have proven that pods reach them.
func writeReplicas(w io.Writer, all []state.Replica) error {
	fmt.Fprintln(w)
	if err := writeTemplates(w, all, ""); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	any := false
	for _, a := range all {
		var parts []string
		for _, cache := range slices.Sorted(maps.Keys(a.CacheAgeSeconds)) {
			parts = append(parts, fmt.Sprintf("%s %s", cache, time.Duration(a.CacheAgeSeconds[cache]*float64(time.Second)).Round(100*time.Millisecond)))
		}
		if len(parts) == 0 && a.EnforcementProven == nil {
			continue
		}
		if !any {
			fmt.Fprintln(table, "\nREPLICA\tAGE OF CACHES\tENFORCEMENT")
			any = true
		}
		proof := "unknown"
		if p := a.EnforcementProven; p != nil && *p {
			proof = "proven"
		} else if p != nil {
			proof = "not proven"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", a.Name, cmp.Or(strings.Join(parts, ", "), "-"), proof)
	}
	return table.Flush()
}

// writeTemplates prints each template with its hash, and how many replicas apply it: more than
// one line where they differ. Only is the one template to print, "" for all.
func writeTemplates(w io.Writer, all []state.Replica, only string) error {
	by, answered := map[string]map[string]int{}, 0
	for _, a := range all {
		if !a.Answers {
			continue
		}
		answered++
		for name, hash := range a.Templates {
			if only != "" && name != only {
				continue
			}
			if slices.Contains(a.Broken, name) {
				hash += " (a newer version is broken)"
			}
			if by[name] == nil {
				by[name] = map[string]int{}
			}
			by[name][hash]++
		}
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "TEMPLATE\tHASH\tAPPLIED BY")
	for _, name := range slices.Sorted(maps.Keys(by)) {
		for _, hash := range slices.Sorted(maps.Keys(by[name])) {
			fmt.Fprintf(table, "%s\t%s\t%d of %d replicas\n", name, cmp.Or(strings.TrimSpace(hash), "-"), by[name][hash], answered)
		}
	}
	if len(by) == 0 {
		fmt.Fprintln(table, "none")
	}
	return table.Flush()
}
