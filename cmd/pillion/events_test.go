package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/injector/reason"
)

const eventsPage = "../../docs/reference/events.md"

//go:generate go test . -run TestTheReferenceOfEventsIsCurrent -update

// TestTheReferenceOfEventsIsCurrent holds docs/reference/events.md to the reasons that events can have, and to all reason codes.
func TestTheReferenceOfEventsIsCurrent(t *testing.T) {
	code := func(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }
	var b strings.Builder
	var kinds []string
	for _, kind := range owner.Kinds {
		kinds = append(kinds, kind.Kind)
	}
	slices.Sort(kinds)
	fmt.Fprintf(&b, eventsIntroduction, code(kinds))
	codes := reason.Codes()
	slices.Sort(codes)
	b.WriteString("\n## Reasons of events\n\n| reason | type | it means |\n| --- | --- | --- |\n")
	rows := []string{"| `" + events.InjectionNote + "` | Normal | the pod is admitted with a warning, for example because a value of the pod wins over the template's |\n"}
	for _, c := range codes {
		if kind := c.EventType(); kind != "" {
			rows = append(rows, fmt.Sprintf("| [`%s`](../troubleshoot/reason-codes.md#%s) | %s | %s |\n", c, strings.ToLower(string(c)), kind, c.Sentence()))
		}
	}
	slices.SortFunc(rows, func(a, b string) int {
		return strings.Compare(strings.TrimLeft(a, "| [`"), strings.TrimLeft(b, "| [`"))
	})
	b.WriteString(strings.Join(rows, ""))
	b.WriteString("\n## Reason codes without events\n\nThey stand in answers, metrics, logs and `pillion explain`.\n\n| reason code | it means |\n| --- | --- |\n")
	for _, c := range codes {
		if c.EventType() == "" {
			fmt.Fprintf(&b, "| [`%s`](../troubleshoot/reason-codes.md#%s) | %s |\n", c, strings.ToLower(string(c)), c.Sentence())
		}
	}
	transcript.Generated(t, eventsPage, "go generate ./cmd/pillion", b.String(), *update)
}

const eventsIntroduction = "# Events\n\n" +
	"This page is for teams.\nIt explains what `kubectl describe` of your workload says about its pods.\n" +
	"Kubernetes shows warnings about a workload's pods to its controller alone.\n" +
	"So Pillion writes an event on the topmost owner of the pod, or on the namespace if the API server knows no such owner.\n" +
	"Owners are %s.\n\n" +
	"    kubectl describe deploy web\n" +
	"    kubectl -n shop get events --field-selector reportingComponent=pillion\n\n" +
	"Each event ends in the command that gives the details.\n" +
	"Its action is `Admit` or `Refuse`.\n" +
	"Dry runs have no events.\n\n" +
	"Events with one reason on one object are one event with a count, until there was none for six minutes. It has the text of the first.\n" +
	"A namespace may have ten writes at once, and one more every ten seconds; more are dropped.\n" +
	"[pillion_events_total](metrics.md#pillion_events_total) counts them. API servers keep events for an hour.\n"
