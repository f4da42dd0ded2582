package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/templates/library"
)

func TestTheDocsHoldTheTableThatLibraryListPrints(t *testing.T) {
	code, table, errs := call(t, "", nil, "library", "list", "-o", "markdown")
	if code != exitDone {
		t.Fatal(errs)
	}
	text, err := os.ReadFile("../../docs/reference/library.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(text), "<!-- pillion library list -o markdown -->\n")
	got, _, ends := strings.Cut(rest, "<!-- end -->")
	if !begins || !ends {
		t.Fatal("docs/reference/library.md has no place for the table")
	}
	if diff := cmp.Diff(table, got); diff != "" {
		t.Errorf("docs/reference/library.md differs from the output of `pillion library list -o markdown` (-want +got):\n%s", diff)
	}
}

func TestTheChartAcceptsTheNamesOfTheLibrary(t *testing.T) {
	text, err := os.ReadFile("../../charts/pillion/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Library struct {
				Items struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(library.Names(), schema.Properties.Library.Items.Enum); diff != "" {
		t.Errorf("the chart's names of library templates (-want +got):\n%s", diff)
	}
}

func TestThePodSecurityLevelIsTheStrictestThatAPodMeets(t *testing.T) {
	level := func(change func(spec, container map[string]any)) string {
		t.Helper()
		var pod map[string]any
		if err := json.Unmarshal([]byte(restrictedPod), &pod); err != nil {
			t.Fatal(err)
		}
		spec := pod["spec"].(map[string]any)
		change(spec, spec["containers"].([]any)[0].(map[string]any))
		got, err := podSecurityLevel(pod)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for want, change := range map[string]func(spec, container map[string]any){
		"restricted": func(_, _ map[string]any) {},
		"baseline":   func(_, container map[string]any) { delete(container, "securityContext") },
		"privileged": func(spec, _ map[string]any) { spec["hostNetwork"] = true },
	} {
		if got := level(change); got != want {
			t.Errorf("level %s, want %s", got, want)
		}
	}
}
