package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/pillion-dev/pillion/clientset"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/show"
)

// statusCommand are the flags of status.
type statusCommand struct {
	where installation
	// namespace narrows what is said of pods, "" for all.
	namespace, output string
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
	Replicas       []replicaReport       `json:"replicas"`
	Configurations []configurationReport `json:"configurations,omitempty"`
	Pods           *podsReport           `json:"pods,omitempty"`
	// PodsUnknown says why no pods were compared.
	PodsUnknown string `json:"podsUnknown,omitempty"`
	// Notes say where what follows may be wrong.
	Notes []string `json:"notes,omitempty"`
	// Next are the commands to run next.
	Next []string `json:"next"`
}

// replicaReport is one replica.
type replicaReport struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// Templates are those that it applies, library and all, with their hashes.
	Templates map[string]string `json:"templates"`
	// Broken are the templates whose newest version has a mistake, so that an older one is in force.
	Broken []string `json:"broken,omitempty"`
	// CacheAgeSeconds says how long ago each cache was last known to be right.
	CacheAgeSeconds map[string]float64 `json:"cacheAgeSeconds,omitempty"`
	// EnforcementProven reports whether this replica has proven that pods go through Pillion.
	EnforcementProven *bool      `json:"enforcementProven,omitempty"`
	CertificateEnds   *time.Time `json:"certificateEnds,omitempty"`
	AuthorityEnds     *time.Time `json:"authorityEnds,omitempty"`
	PodsLastLookedAt  *time.Time `json:"podsLastLookedAt,omitempty"`
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
	if c.output != "text" && c.output != "json" {
		return usageError{fmt.Errorf("output %q; allowed are text, json", c.output)}
	}
	ctx, out := cmd.Context(), show.Writer(cmd.OutOrStdout())
	var notRunning bytes.Buffer
	client, replicas, err := c.where.open(ctx, &notRunning)
	if err != nil {
		return granting(err)
	}
	pods, set, target, podsErr := c.pods(ctx, args)
	if podsErr != nil && (len(args) > 0 || c.namespace != "") {
		return podsErr
	}
	if c.output == "json" {
		return c.writeJSON(ctx, cmd.OutOrStdout(), client, replicas, strings.Split(strings.TrimSpace(notRunning.String()), "\n"), target, pods, set, podsErr)
	}
	if _, err := notRunning.WriteTo(out); err != nil {
		return err
	}
	result, all := error(nil), askAll(ctx, replicas)
	if target.String() == "" {
		if result = status(ctx, out, client, c.where.namespace, all); result != nil && result != errRefused {
			return granting(result)
		}
	} else {
		for _, line := range problemsOf(c.where.namespace, all) {
			fmt.Fprintln(out, line)
			result = errRefused
		}
		if target.template != "" {
			if err := writeTemplates(out, all, target.template); err != nil {
				return err
			}
		}
	}
	if podsErr != nil {
		fmt.Fprintf(out, "\npods: not compared: %v\n", podsErr)
		return errRefused
	}
	if target.namespace == "" {
		fmt.Fprintln(out)
	}
	for _, note := range skew(all, set) {
		fmt.Fprintln(out, "note:", note)
	}
	if err := writePods(out, *pods, target); err != nil {
		return err
	}
	return result
}

// skew says where this program would apply another version of a template than all replicas: it
// brings a library of its own.
func skew(all []answers, set *templates.Set) []string {
	applied := map[string][]string{}
	for _, a := range all {
		for name, hash := range a.report().Templates {
			applied[name] = append(applied[name], hash)
		}
	}
	var notes []string
	for _, e := range set.All() {
		if hashes := applied[e.Name]; e.Template != nil && len(hashes) > 0 && !slices.Contains(hashes, e.Template.Hash()) {
			notes = append(notes, fmt.Sprintf("template %s: the replicas apply %s, and this pillion (%s) compares with %s, so what it says about the template's pods is wrong; use the pillion of the replicas' version",
				e.Name, hashes[0], version, e.Template.Hash()))
		}
	}
	return notes
}

// pods compares the pods that the argument is about. It returns the templates that it compared
// with, too.
func (c *statusCommand) pods(ctx context.Context, args []string) (*podsReport, *templates.Set, target, error) {
	config, err := clusterConfig(c.where.kubeconfig, c.where.context)
	if err != nil {
		return nil, nil, target{}, err
	}
	config.QPS, config.Burst = 50, 100
	client, err := clientset.New(config)
	if err != nil {
		return nil, nil, target{}, fmt.Errorf("making a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, target{}, fmt.Errorf("making a client for settings and events: %w", err)
	}
	names, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, target{}, fmt.Errorf("making a client for namespaces: %w", err)
	}
	settings, err := readServerSettings(ctx, objects, c.where.place())
	if err != nil {
		return nil, nil, target{}, granting(err)
	}
	var of target
	if len(args) > 0 {
		if of, err = findTarget(ctx, args[0], settings.set, names); err != nil {
			return nil, nil, of, err
		}
	}
	if of, err = of.in(c.namespace); err != nil {
		return nil, nil, of, err
	}
	report, err := podsReader{list: client.PodList, metadata: names, dynamic: objects, settings: settings, kubernetes: clusterKubeVersion(ctx, config)}.read(ctx, of)
	report.flags = c.where.args()
	return &report, settings.set, of, err
}

// writeJSON prints everything as one object.
func (c *statusCommand) writeJSON(ctx context.Context, w io.Writer, client clientset.Interface, replicas []replica, notRunning []string, of target, pods *podsReport, set *templates.Set, podsErr error) error {
	all := askAll(ctx, replicas)
	r := statusReport{Target: of.String(), Warnings: warningsOf(all), Problems: problemsOf(c.where.namespace, all), Pods: pods, Replicas: []replicaReport{}, Next: []string{}}
	r.Sound = len(r.Problems) == 0
	for _, line := range notRunning {
		if line != "" {
			r.Warnings = append(r.Warnings, line) // others run, or their absence is a problem
		}
	}
	for _, a := range all {
		r.Replicas = append(r.Replicas, a.report())
	}
	if of == (target{}) {
		configurations, err := configurationsOf(ctx, client, c.where.namespace, all)
		if err != nil {
			return err
		}
		r.Sound = r.Sound && complete(configurations, all)
		for _, one := range configurations {
			r.Configurations = append(r.Configurations, one.report(all))
		}
	}
	if podsErr != nil {
		r.Pods, r.PodsUnknown = nil, podsErr.Error()
	} else {
		r.Next, r.Notes = append(r.Next, nextCommands(*pods, of)...), skew(all, set)
	}
	if r.Problems == nil {
		r.Problems = []string{}
	}
	if err := show.JSON(w, r); err != nil {
		return err
	}
	if !r.Sound || podsErr != nil {
		return errRefused
	}
	return nil
}

// report is what a replica says of itself.
func (a answers) report() replicaReport {
	r := replicaReport{Name: a.name, Ready: a.missing == "" && a.metrics != nil, Templates: map[string]string{}}
	for _, m := range a.metrics["pillion_template_info"].GetMetric() {
		labels := labelsOf(m)
		if numberOf(m) == 0 {
			continue
		}
		r.Templates[labels["template"]] = labels["hash"]
		if labels["good"] == "false" {
			r.Broken = append(r.Broken, labels["template"])
		}
	}
	slices.Sort(r.Broken)
	for _, m := range a.metrics["pillion_cache_age_seconds"].GetMetric() {
		if r.CacheAgeSeconds == nil {
			r.CacheAgeSeconds = map[string]float64{}
		}
		if age := numberOf(m); age >= 0 && age < mostSeconds {
			r.CacheAgeSeconds[labelsOf(m)["cache"]] = age
		}
	}
	if proven, ok := a.value("pillion_enforcement_proven"); ok {
		r.EnforcementProven = new(proven > 0)
	}
	r.CertificateEnds, r.AuthorityEnds = a.moment("pillion_certificate_expiry_timestamp_seconds"), a.moment("pillion_certificate_authority_expiry_timestamp_seconds")
	r.PodsLastLookedAt = a.moment("pillion_survey_last_success_timestamp_seconds")
	return r
}

// mostSeconds is the end of the year 9999: JSON has no later time.
const mostSeconds = 253402300800

// moment returns the time in a metric, nil for none that can be.
func (a answers) moment(name string) *time.Time {
	seconds, ok := a.value(name)
	if !ok || !(seconds > 0 && seconds < mostSeconds) {
		return nil
	}
	return new(time.UnixMilli(int64(seconds * 1000)).UTC())
}

func (c configuration) report(replicas []answers) configurationReport {
	verified, of := c.verified(replicas)
	r := configurationReport{Kind: c.kind, Name: c.name, Exists: c.exists, VerifiedBy: verified, Replicas: of, Entries: []string{}, TrustedCAs: map[string]int{}}
	for _, e := range c.entries {
		r.Entries = append(r.Entries, e.name)
		r.TrustedCAs[e.name] = len(trustedCAs(e.client.CABundle))
	}
	return r
}

// writeReplicas prints the templates that the replicas apply, and what else they say of
// themselves: the ages of their caches, and whether they have proven that pods reach them.
func writeReplicas(w io.Writer, all []answers) error {
	fmt.Fprintln(w)
	if err := writeTemplates(w, all, ""); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	any := false
	for _, a := range all {
		r := a.report()
		var parts []string
		for _, cache := range slices.Sorted(maps.Keys(r.CacheAgeSeconds)) {
			parts = append(parts, fmt.Sprintf("%s %s", cache, time.Duration(r.CacheAgeSeconds[cache]*float64(time.Second)).Round(100*time.Millisecond)))
		}
		if len(parts) == 0 && r.EnforcementProven == nil {
			continue
		}
		if !any {
			fmt.Fprintln(table, "\nREPLICA\tAGE OF CACHES\tENFORCEMENT")
			any = true
		}
		proof := "unknown"
		if p := r.EnforcementProven; p != nil && *p {
			proof = "proven"
		} else if p != nil {
			proof = "not proven"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", r.Name, orDash(strings.Join(parts, ", ")), proof)
	}
	return table.Flush()
}

// writeTemplates prints each template with its hash, and how many replicas apply it: more than
// one line where they differ. Only is the one template to print, "" for all.
func writeTemplates(w io.Writer, all []answers, only string) error {
	by, answered := map[string]map[string]int{}, 0
	for _, a := range all {
		if a.metrics == nil {
			continue
		}
		answered++
		r := a.report()
		for name, hash := range r.Templates {
			if only != "" && name != only {
				continue
			}
			if slices.Contains(r.Broken, name) {
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
			fmt.Fprintf(table, "%s\t%s\t%d of %d replicas\n", name, orDash(strings.TrimSpace(hash)), by[name][hash], answered)
		}
	}
	if len(by) == 0 {
		fmt.Fprintln(table, "none")
	}
	return table.Flush()
}
