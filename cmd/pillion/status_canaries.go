package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/state"
	"github.com/pillion-dev/pillion/templates"
)

// canaryReport is a canary of a template.
type canaryReport struct {
	Name string `json:"name"`
	// Of is the stable template, Percent the share. Empty and nil where the templates are not known.
	Of      string `json:"of,omitempty"`
	Percent *int   `json:"percent,omitempty"`
	// StoppedOn is how many of the Replicas that answered give it to no pod any more.
	StoppedOn int `json:"stoppedOn"`
	Replicas  int `json:"replicas"`
	// Workloads are those of a replica that has looked at pods: by version (canary, stable) and state
	// (failing, healthy).
	Workloads map[string]map[string]int `json:"workloads,omitempty"`
}

// canariesOf returns the canaries that the replicas know, by name. Only is the one template, canary or
// stable, that they are of, "" for all. Set may be nil.
func canariesOf(all []state.Replica, set *templates.Set, only string) []canaryReport {
	by := map[string]*canaryReport{}
	answered := 0
	for _, r := range all {
		if r.Answers {
			answered++
		}
		for name, c := range r.Canaries {
			if by[name] == nil {
				by[name] = &canaryReport{Name: name}
			}
			if c.Stopped {
				by[name].StoppedOn++
			}
			if c.Workloads != nil {
				by[name].Workloads = c.Workloads
			}
		}
	}
	var reports []canaryReport
	for _, name := range slices.Sorted(maps.Keys(by)) {
		r := by[name]
		r.Replicas = answered
		if set != nil {
			if c, ok := set.Canary(name); ok {
				r.Of, r.Percent = c.Of, new(c.Percent())
			}
		}
		if only == "" || only == name || only == r.Of {
			reports = append(reports, *r)
		}
	}
	return reports
}

// writeCanaries writes the canaries, if there are any.
func writeCanaries(out *strings.Builder, canaries []canaryReport) {
	var rows []string
	for _, c := range canaries {
		share, state := "-", "in force"
		if c.Percent != nil {
			share = fmt.Sprintf("%d %%", *c.Percent)
		}
		if c.StoppedOn > 0 {
			state = fmt.Sprintf("stopped on %d of %d replicas", c.StoppedOn, c.Replicas)
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", c.Name, cmp.Or(c.Of, "-"), share, state, workloadsText(c.Workloads["canary"]), workloadsText(c.Workloads["stable"])))
	}
	if len(rows) > 0 {
		inspect.WriteTable(out, "\nCANARY\tOF\tSHARE\tSTATE\tWORKLOADS WITH IT\tWITH THE STABLE VERSION", rows)
	}
}

func workloadsText(states map[string]int) string {
	if states == nil {
		return "unknown"
	}
	return fmt.Sprintf("%d, %d of them failing", states["failing"]+states["healthy"], states["failing"])
}
