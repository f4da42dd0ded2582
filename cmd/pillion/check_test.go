package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/inspect/check"
)

func TestTheReportOfCheckIsWrittenAsJSON(t *testing.T) {
	report := check.Report{Outcomes: []check.Outcome{{Result: check.OK}, {Result: check.Failed, Findings: []check.Finding{{Result: check.Failed, Says: "no"}}}}}
	var out bytes.Buffer
	if err := writeCheckJSON(&out, report, false); err != nil {
		t.Fatal(err)
	}
	var back checkReport
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Sound || !back.Judged || back.Counts[check.Failed] != 1 || len(back.Checks) != 2 {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestWrongFlagsOfCheckAreWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"-o", "yaml"}, {"--color", "pink"}, {"shop"}} {
		var out bytes.Buffer
		if code := run(t.Context(), append([]string{"pillion", "check"}, args...), strings.NewReader(""), &out, &out); code != exitUsage {
			t.Errorf("%v: exit code %d\n%s", args, code, &out)
		}
	}
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	var out bytes.Buffer
	auto, err := newPalette("auto", &out)
	if err != nil || auto.on {
		t.Errorf("a buffer gets colours: %v", err)
	}
	always, _ := newPalette("always", &out)
	never, _ := newPalette("never", &out)
	if got := always.paint(red, "x") + never.paint(red, "x"); got != "\x1b[31mx\x1b[0mx" {
		t.Errorf("%q", got)
	}
}
