package inspect

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates/show"
)

// maxRows bounds the rows of tables about pods. -o json has all.
const maxRows = 20

// Write writes the report for people, with the commands that bring pods up to date.
func (r PodsReport) Write(out *strings.Builder, of Target) {
	namespaces := r.Namespaces[:min(len(r.Namespaces), maxRows)]
	var rows []string
	for _, n := range namespaces {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%d\t%d", n.Name, show.Plain(cmp.Or(n.Injection, "-")), n.Pods, n.UpToDate, n.Missing, n.Outdated, n.WouldBeRefused))
	}
	if len(rows) == 0 {
		rows = []string{"none"}
	}
	WriteTable(out, "NAMESPACE\tINJECTION\tPODS\tUP TO DATE\tMISSING\tOUTDATED\tREFUSED", rows)
	if more := len(r.Namespaces) - maxRows; more > 0 {
		fmt.Fprintf(out, "and %d more namespaces with as few such pods or fewer; -o json lists all\n", more)
	}
	if r.EventsUnknown != "" {
		fmt.Fprintf(out, "recent refusals are not known: %s\n", r.EventsUnknown)
	}
	if r.NotLookedAt > 0 {
		fmt.Fprintf(out, "not compared: %d pods are too large\n", r.NotLookedAt)
	}
	r.writeWorkloads(out, of)
	r.writeExceptions(out)
	writeRefusals(out, namespaces)
	if next := r.Next(of); len(next) > 0 {
		fmt.Fprintf(out, "\nTo bring the pods up to date:\n  %s\n", strings.Join(next, "\n  "))
	}
}

// writeWorkloads writes the workloads. For the target of a namespace, it also writes the pods that
// differ from new ones.
func (r PodsReport) writeWorkloads(out *strings.Builder, of Target) {
	if len(r.Workloads) == 0 {
		return
	}
	heading := "\nWORKLOAD\tPODS\tUP TO DATE\tMISSING\tOUTDATED\tREFUSED"
	if of.Namespace == "" {
		heading = "\nWORKLOAD\tNAMESPACE\tPODS\tOUTDATED OR MISSING"
	}
	var rows, pods []string
	for _, o := range r.Workloads[:min(len(r.Workloads), maxRows)] {
		name := show.Plain(o.String())
		if of.Namespace == "" {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%d\t%s", name, o.Namespace, o.Pods, cell(show.Plain(o.formatTemplates()))))
			continue
		}
		rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d", name, o.Pods, o.UpToDate, o.Missing, o.Outdated, o.WouldBeRefused))
		for _, p := range o.OutdatedPods {
			pods = append(pods, p.Name+"\t"+cell(show.Plain(p.Text)))
		}
		if more := o.outdatedOrMissing() + o.WouldBeRefused - len(o.OutdatedPods); more > 0 {
			pods = append(pods, fmt.Sprintf("and %d more\tof %s", more, name))
		}
	}
	WriteTable(out, heading, rows)
	if more := len(r.Workloads) - maxRows; more > 0 {
		fmt.Fprintf(out, "and %d more workloads; -o json lists all\n", more)
	}
	if r.PodsOfMoreWorkloads > 0 {
		fmt.Fprintf(out, "and %d pods of workloads beyond %d\n", r.PodsOfMoreWorkloads, maxWorkloads)
	}
	if len(pods) > 0 {
		WriteTable(out, "\nPOD\tCOMPARED WITH A NEW POD", pods)
	}
}

// formatTemplates formats the templates that the pods of a workload lack, or have in another version.
func (o workloadReport) formatTemplates() string {
	var parts []string
	for _, state := range []drift.State{drift.Missing, drift.Outdated, drift.Refused} {
		if names := o.Templates[state]; len(names) > 0 {
			parts = append(parts, string(state)+": "+strings.Join(names, ", "))
		}
	}
	if len(parts) == 0 && o.WouldBeRefused > 0 {
		return string(drift.Refused)
	}
	return strings.Join(parts, "; ")
}

// writeRefusals writes the recent refusals.
func writeRefusals(out *strings.Builder, namespaces []namespaceReport) {
	heading := "\nRecently refused, from Pillion's events:\n"
	for _, n := range namespaces {
		for _, e := range n.RefusedLately {
			fmt.Fprintf(out, "%s  %s %s (%s): %s\n", heading, n.Name, show.Plain(e.About), e.Reason, cell(show.Plain(e.Note)))
			heading = ""
		}
	}
}

// cell shortens a text for one cell of the table.
func cell(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if runes := []rune(text); len(runes) > maxCell {
		return string(runes[:maxCell-1]) + "…"
	}
	return text
}

// maxCell is the width of the widest cell, in characters.
const maxCell = 120

// maxCommands bounds the commands of a report.
const maxCommands = 3

// Next returns the commands that show, by dry run, how to bring pods up to date.
func (r PodsReport) Next(of Target) []string {
	var namespaces []string
	for _, n := range r.Namespaces {
		if n.outdatedOrMissing() > 0 {
			namespaces = append(namespaces, n.Name)
		}
	}
	if len(namespaces) == 0 {
		return nil
	}
	if of != (Target{}) {
		return []string{"pillion rollout " + of.String() + " --dry-run" + r.args}
	}
	var commands []string
	for _, name := range namespaces[:min(len(namespaces), maxCommands)] {
		commands = append(commands, "pillion rollout ns/"+name+" --dry-run"+r.args)
	}
	return commands
}
