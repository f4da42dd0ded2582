package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
)

// standing compares a pod with a new one, for one template.
type standing struct {
	template string
	// has is the template's hash in the pod's record, empty if the record does not have
	// the template. gets is the hash of the template in a pod that is created now, empty
	// if that pod does not get it.
	has, gets string
	// code is the template's reason code in a pod that is created now.
	code reason.Code
}

// state is the result of the comparison.
type state int

const (
	current state = iota
	outdated
	missing
	dropped
)

func (s standing) state() state {
	switch {
	case s.gets == "":
		return dropped
	case s.has == "":
		return missing
	case s.has != s.gets:
		return outdated
	}
	return current
}

func (s standing) String() string {
	switch s.state() {
	case outdated:
		return "outdated"
	case missing:
		return "missing"
	case dropped:
		return "not injected now: " + string(s.code)
	}
	return "injected already"
}

// standings compares an existing pod with one that is created now, template by
// template: those of the outcome first. A pod that is yet to be created, with neither a
// record nor a UID, has no standings.
func standings(pod map[string]any, rec record.Record, out injector.Outcome) []standing {
	metadata, _ := pod["metadata"].(map[string]any)
	if uid, _ := metadata["uid"].(string); uid == "" && rec.Empty() {
		return nil
	}
	var all []standing
	for _, t := range out.Templates {
		s := standing{template: t.Name, has: rec.Hash(t.Name), code: t.Code}
		if t.Code == reason.Injected {
			s.gets = t.Hash
		}
		if s.has != "" || s.gets != "" {
			all = append(all, s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rec.Templates)) {
		if !slices.ContainsFunc(out.Templates, func(o injector.TemplateOutcome) bool { return o.Name == name }) {
			all = append(all, standing{template: name, has: rec.Hash(name), code: cmp.Or(refusal(out), reason.UnknownTemplate)})
		}
	}
	return all
}

// refusal returns the code of a refusal, or "" for a pod that is admitted.
func refusal(out injector.Outcome) reason.Code {
	if out.Allowed {
		return ""
	}
	return out.Code
}

// named returns the templates in a state.
func named(all []standing, in state) []string {
	var names []string
	for _, s := range all {
		if s.state() == in {
			names = append(names, s.template)
		}
	}
	return names
}

// behind says how a pod differs from one that is created now, "" if it does not.
// Changes reports whether another injection would change the pod.
func behind(all []standing, changes bool) string {
	var parts []string
	if names := named(all, outdated); len(names) > 0 {
		parts = append(parts, "outdated: "+strings.Join(names, ", "))
	}
	if names := named(all, missing); len(names) > 0 {
		parts = append(parts, "missing: "+strings.Join(names, ", "))
	}
	if len(parts) == 0 && len(all) > 0 && changes {
		return "changed since, or with other parameters now"
	}
	return strings.Join(parts, "; ")
}

func writeStandings(w io.Writer, all []standing) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "  TEMPLATE\tTHE POD HAS\tCREATED NOW\tSO IT IS")
	for _, s := range all {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", s.template, orDash(s.has), orDash(s.gets), s)
	}
	return table.Flush()
}
