package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/webhook/state"
)

// statusCommand are the flags of status.
type statusCommand struct {
	where inspect.Place
	// namespace limits the report about pods to a namespace, "" for all.
	namespace, output string
}

func newStatusCommand() *cobra.Command {
	var c statusCommand
	cmd := &cobra.Command{
		Use:   "status [TEMPLATE|NAMESPACE]",
		Short: "Show what is missing, and which pods lack a sidecar",
		Long: `Status asks every replica, through the API server, and compares the running
pods with what they would get if they were created now. You need the permissions
to list pods in Pillion's namespace, and to get pods/proxy there; for the pods,
to read Pillion's ConfigMap and SidecarTemplates, and to list namespaces, pods
and events. A missing one is named, with the command that grants it. The exit
code is 1 if a replica lacks something, or something cannot be read; pods that
lack a sidecar do not count for it. 'pillion check' looks at the whole
installation.

With the name of a namespace, or -n, status shows its pods by workload; with the
name of a template, what concerns the template. ns/NAME and sct/NAME say which
is meant.

A pod is missing a template that a new pod would get. It is outdated if it has a
template in another version than the one in force, or if a new pod would get
other parameters. Pods that have ended, pods that opt out, and pods of
namespaces in which Pillion is not called are neither. What was refused lately
is from Pillion's events, which API servers keep for an hour.

The replicas are the running pods of the namespace with a container called
pillion. Pods that are being deleted are left out; pods that do not run are
named.`,
		Example: `  pillion status
  pillion status shop
  pillion status sct/fluent-bit -o json
  pillion status fluent-bit -n shop
  pillion status --pillion-namespace sidecars
  pillion status --replica http://127.0.0.1:8080   # after kubectl port-forward`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{Err: fmt.Errorf("%s takes one template or namespace, got %q", cmd.CommandPath(), args)}
			}
			if len(args) == 0 {
				return nil
			}
			_, _, err := inspect.ParseTarget(args[0])
			return err
		},
		RunE:              c.run,
		ValidArgsFunction: first(completeTargets),
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
	// Warnings are problems that do no harm now.
	Warnings []string `json:"warnings,omitempty"`
	// Target is the template or namespace of the argument, as sct/NAME or ns/NAME.
	Target   string              `json:"target,omitempty"`
	Replicas []state.Replica     `json:"replicas"`
	Pods     *inspect.PodsReport `json:"pods,omitempty"`
	// PodsUnknown says why no pods were compared.
	PodsUnknown string `json:"podsUnknown,omitempty"`
	// Notes name the objects that cannot be read, so that a part of the report may be wrong.
	Notes []string `json:"notes,omitempty"`
	// Next are the commands to run next.
	Next []string `json:"next"`

	// general are those of Warnings that are printed whatever the target is: about pods of Pillion that
	// do not run, and about templates whose pods the API server refuses.
	general []string
}

func (c *statusCommand) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	cluster, err := openCluster(c.where)
	if err != nil {
		return err
	}
	if err := cluster.CheckConnection(ctx); err != nil {
		return err
	}
	replicas, notRunning, err := cluster.FindReplicas(ctx)
	if err != nil {
		return err
	}
	var live *inspect.Live
	var of inspect.Target
	var pods inspect.PodsReport
	settings, err := cluster.Settings(ctx)
	if err == nil {
		live, of, err = cluster.Resolve(ctx, settings, strings.Join(args, ""), c.namespace) // one at most
	}
	if err == nil {
		pods, err = live.ComparePods(ctx, of)
	}
	if err != nil && (len(args) > 0 || c.namespace != "") {
		return err
	}
	r := reportOn(cluster.Namespace, inspect.GetStates(ctx, replicas), of)
	r.general = notRunning
	if err == nil {
		r.general = append(r.general, live.AcceptanceWarnings(ctx, of)...)
		r.Pods, r.Next, r.Notes = &pods, append(r.Next, pods.Next(of)...), inspect.Skew(r.Replicas, live.Templates, version)
	} else {
		r.PodsUnknown = rights.Explain(err).Error()
	}
	r.Warnings = append(r.Warnings, r.general...)
	if c.output == "json" {
		err = show.JSON(cmd.OutOrStdout(), r)
	} else {
		_, err = io.WriteString(show.Writer(cmd.OutOrStdout()), r.text(of))
	}
	if err == nil && (!r.Sound || r.Pods == nil) {
		err = errRefused
	}
	return err
}

// reportOn returns the report about replicas. Namespace is Pillion's own.
func reportOn(namespace string, replicas []state.Replica, of inspect.Target) statusReport {
	problems := append([]string{}, inspect.Problems(namespace, replicas)...)
	return statusReport{
		Sound: len(problems) == 0, Problems: problems, Warnings: inspect.Warnings(replicas),
		Replicas: append([]state.Replica{}, replicas...), Target: of.String(), Next: []string{},
	}
}

// text returns the report for people.
func (r statusReport) text(of inspect.Target) string {
	var out strings.Builder
	lines := slices.Concat(r.general, r.Problems)
	if of == (inspect.Target{}) {
		lines = append(lines, inspect.Warnings(r.Replicas)...)
	}
	for _, line := range lines {
		fmt.Fprintln(&out, line)
	}
	switch {
	case of.Template != "":
		writeTemplates(&out, r.Replicas, of.Template)
	case of.Namespace == "" && len(r.Replicas) > 0:
		writeReplicas(&out, r.Replicas)
	}
	if r.Pods == nil {
		fmt.Fprintf(&out, "\npods: not compared: %s\n", r.PodsUnknown)
		return out.String()
	}
	if of.Namespace == "" {
		out.WriteByte('\n')
	}
	for _, note := range r.Notes {
		fmt.Fprintln(&out, "note:", note)
	}
	r.Pods.Write(&out, of)
	return out.String()
}

// writeReplicas prints the templates that the replicas apply, and what else they say of
// themselves: the ages of their caches, and whether they have proven that pods reach them.
func writeReplicas(out *strings.Builder, all []state.Replica) {
	writeTemplates(out, all, "")
	var rows []string
	for _, a := range all {
		var parts []string
		for _, cache := range slices.Sorted(maps.Keys(a.CacheAgeSeconds)) {
			parts = append(parts, fmt.Sprintf("%s %s", cache, time.Duration(a.CacheAgeSeconds[cache]*float64(time.Second)).Round(100*time.Millisecond)))
		}
		proof := "unknown"
		if p := a.EnforcementProven; p != nil && *p {
			proof = "proven"
		} else if p != nil {
			proof = "not proven"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s", a.Name, cmp.Or(strings.Join(parts, ", "), "-"), proof))
	}
	inspect.WriteTable(out, "\nREPLICA\tAGE OF CACHES\tENFORCEMENT", rows)
}

// writeTemplates prints each template with its hash, and how many replicas apply it: more than
// one line where they differ. Only is the one template to print, "" for all.
func writeTemplates(out *strings.Builder, all []state.Replica, only string) {
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
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		for _, hash := range slices.Sorted(maps.Keys(by[name])) {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%d of %d replicas", name, cmp.Or(strings.TrimSpace(hash), "-"), by[name][hash], answered))
		}
	}
	if len(rows) == 0 {
		rows = []string{"none"}
	}
	inspect.WriteTable(out, "TEMPLATE\tHASH\tAPPLIED BY", rows)
}
