package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/standing"
	"github.com/pillion-dev/pillion/templates"
)

// standings compares an existing pod with one that is created now, for each template that
// one of them has. A pod that is yet to be created, with neither a record nor a UID, has no
// standings.
func standings(pod map[string]any, rec record.Record, out injector.Outcome, set *templates.Set) []standing.Template {
	metadata, _ := pod["metadata"].(map[string]any)
	if uid, _ := metadata["uid"].(string); uid == "" && rec.Empty() {
		return nil
	}
	return slices.DeleteFunc(standing.Templates(rec, out, set), func(t standing.Template) bool { return t.Has == "" && t.Gets == "" })
}

// behind says how a pod differs from one that is created now, "" if it does not.
// Changes reports whether another injection would change the pod.
func behind(all []standing.Template, changes bool) string {
	var parts []string
	for _, state := range []standing.State{standing.Outdated, standing.Missing} {
		if names := standing.Named(all, state); len(names) > 0 {
			parts = append(parts, string(state)+": "+strings.Join(names, ", "))
		}
	}
	if len(parts) == 0 && len(all) > 0 && changes {
		return "changed since, or with other parameters now"
	}
	return strings.Join(parts, "; ")
}

func writeStandings(w io.Writer, all []standing.Template) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "  TEMPLATE\tTHE POD HAS\tCREATED NOW\tSO IT IS")
	for _, t := range all {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", t.Name, orDash(t.Has), orDash(t.Gets), standingText(t))
	}
	return table.Flush()
}

func standingText(t standing.Template) string {
	switch t.State {
	case standing.Current:
		return "injected already"
	case standing.Dropped:
		return "not injected now: " + string(t.Code)
	case standing.Refused:
		return "refused now: " + string(t.Code)
	}
	return string(t.State)
}
