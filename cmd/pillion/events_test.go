package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector/reason"
)

const eventsPage = "../../docs/reference/events.md"

// docs/reference/events.md is made of the reasons that events can have, and of all reason codes:
//
//	go test ./cmd/pillion -run TestTheReferenceOfEventsIsCurrent -update
func TestTheReferenceOfEventsIsCurrent(t *testing.T) {
	code := func(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }
	var b strings.Builder
	fmt.Fprintf(&b, eventsIntroduction, code(events.Kinds()), code(events.Actions()))
	has := map[reason.Code]bool{}
	b.WriteString("\n## Reasons of events\n\n| reason | type | it means |\n| --- | --- | --- |\n")
	for _, r := range events.Reasons() {
		has[reason.Code(r.Name)] = true
		name := "`" + r.Name + "`"
		if slices.Contains(reason.Codes(), reason.Code(r.Name)) {
			name = "[" + name + "](../troubleshoot/runbook.md#" + strings.ToLower(r.Name) + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, r.Type, r.Sentence)
	}
	b.WriteString("\n## Reason codes without events\n\nAnswers, metrics, logs and `pillion explain` have them. Nobody has to be told.\n\n| reason code | it means |\n| --- | --- |\n")
	codes := reason.Codes()
	slices.Sort(codes)
	for _, c := range codes {
		if !has[c] {
			fmt.Fprintf(&b, "| [`%s`](../troubleshoot/runbook.md#%s) | %s |\n", c, strings.ToLower(string(c)), c.Sentence())
		}
	}
	if *update {
		if err := os.WriteFile(eventsPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(eventsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != b.String() {
		t.Error("docs/reference/events.md is not current: go test ./cmd/pillion -run TestTheReferenceOfEventsIsCurrent -update")
	}
}

const eventsIntroduction = "# Events\n\n" +
	"<!-- Made by `go test ./cmd/pillion -run TestTheReferenceOfEventsIsCurrent -update`. Do not edit. -->\n\n" +
	"A Deployment shows no warnings: its controller gets them. So Pillion writes what a controller was told as an event on the pod's topmost owner\n" +
	"(%s), and where the API server does not confirm one, on the namespace:\n\n" +
	"    kubectl describe deploy web\n" +
	"    kubectl -n shop get events --field-selector reportingComponent=pillion\n\n" +
	"Each event ends in the command that says why, rule by rule. Its action is one of %s. Dry runs have no events.\n\n" +
	"Equal events are one, whose count is raised: after ten seconds, then after twice as long each time, every five minutes in the end. A namespace may have ten writes at once and one more every ten seconds; what is\n" +
	"beyond that is not written. [pillion_events_total](metrics.md#pillion_events_total) counts what became of events. API servers keep them for an hour.\n"
