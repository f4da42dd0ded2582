package inspect

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/templates/show"
)

// mostRows is how many rows the tables about pods have. -o json has all.
const mostRows = 20

// Write prints what there is to say about the pods that the target is about, and what to do.
func (r PodsReport) Write(w io.Writer, of Target) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	rows := r.Namespaces
	fmt.Fprintln(table, "NAMESPACE\tINJECTION\tPODS\tINJECTED\tMISSING\tOUTDATED\tREFUSED")
	for _, n := range rows[:min(len(rows), mostRows)] {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", n.Name, show.Plain(orDash(n.Injection)), n.Pods, n.Injected, n.Missing, n.Outdated, n.refused())
	}
	if len(rows) == 0 {
		fmt.Fprintln(table, "none")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if more := len(rows) - mostRows; more > 0 {
		fmt.Fprintf(w, "and %d more namespaces with as few such pods or fewer; -o json lists all\n", more)
	}
	if r.EventsUnknown != "" {
		fmt.Fprintf(w, "recent refusals are not known: %s\n", r.EventsUnknown)
	}
	if r.NotLookedAt > 0 {
		fmt.Fprintf(w, "not compared: %d pods are too large\n", r.NotLookedAt)
	}
	if err := r.writeWorkloads(w, of); err != nil {
		return err
	}
	if err := r.writeExceptions(w); err != nil {
		return err
	}
	writeRefusals(w, rows[:min(len(rows), mostRows)])
	if next := r.Next(of); len(next) > 0 {
		fmt.Fprintf(w, "\nTo bring the pods up to date:\n")
		for _, command := range next {
			fmt.Fprintf(w, "  %s\n", command)
		}
	}
	return nil
}

// refused says how many pods would be refused now, and how often that happened lately.
func (n namespaceReport) refused() string {
	var parts []string
	if n.WouldBeRefused > 0 {
		parts = append(parts, fmt.Sprintf("%d now", n.WouldBeRefused))
	}
	if len(n.RefusedLately) > 0 {
		parts = append(parts, fmt.Sprintf("%d lately", len(n.RefusedLately)))
	}
	return orDash(strings.Join(parts, ", "))
}

// writeWorkloads prints the workloads, in one namespace with the pods that are not as they
// would be now.
func (r PodsReport) writeWorkloads(w io.Writer, of Target) error {
	if len(r.Workloads) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w)
	for i, o := range r.Workloads[:min(len(r.Workloads), mostRows)] {
		switch {
		case of.Namespace == "" && i == 0:
			fmt.Fprintln(table, "WORKLOAD\tNAMESPACE\tPODS\tOUTDATED OR MISSING")
		case i == 0:
			fmt.Fprintln(table, "WORKLOAD\tPODS\tINJECTED\tMISSING\tOUTDATED\tREFUSED NOW")
		}
		if of.Namespace == "" {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", show.Plain(o.String()), o.Namespace, o.Pods, cell(show.Plain(o.what())))
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\n", show.Plain(o.String()), o.Pods, o.Injected, o.Missing, o.Outdated, o.WouldBeRefused)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if more := len(r.Workloads) - mostRows; more > 0 {
		fmt.Fprintf(w, "and %d more workloads; -o json lists all\n", more)
	}
	if r.PodsOfMoreWorkloads > 0 {
		fmt.Fprintf(w, "and %d pods of workloads beyond %d\n", r.PodsOfMoreWorkloads, mostWorkloads)
	}
	if of.Namespace == "" {
		return nil
	}
	began := false
	for _, o := range r.Workloads[:min(len(r.Workloads), mostRows)] {
		for _, p := range o.Behind {
			if !began {
				fmt.Fprintln(table, "\nPOD\tCOMPARED WITH A NEW POD")
				began = true
			}
			fmt.Fprintf(table, "%s\t%s\n", p.Name, cell(show.Plain(p.Says)))
		}
		if more := o.behind() + o.WouldBeRefused - len(o.Behind); more > 0 {
			fmt.Fprintf(table, "and %d more\tof %s\n", more, show.Plain(o.String()))
		}
	}
	return table.Flush()
}

// what says which templates the pods of a workload lack, or have in another version.
func (o workloadReport) what() string {
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

// writeRefusals prints why pods were refused lately.
func writeRefusals(w io.Writer, rows []namespaceReport) {
	began := false
	for _, n := range rows {
		for _, e := range n.RefusedLately {
			if !began {
				fmt.Fprintf(w, "\nRecently refused, from Pillion's events:\n")
				began = true
			}
			fmt.Fprintf(w, "  %s %s (%s): %s\n", n.Name, show.Plain(e.About), e.Reason, cell(show.Plain(e.Note)))
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

// mostNext is how many commands are shown.
const mostNext = 3

// Next are the commands that bring pods up to date, or show what they would do.
func (r PodsReport) Next(of Target) []string {
	var namespaces []string
	for _, n := range r.Namespaces {
		if n.behind() > 0 {
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
	for _, name := range namespaces[:min(len(namespaces), mostNext)] {
		commands = append(commands, "pillion rollout ns/"+name+" --dry-run"+r.args)
	}
	return commands
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
