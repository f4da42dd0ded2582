package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/inspect/check"
)

func TestTheReportOfCheckIsWrittenAsJSON(t *testing.T) {
	report := check.Report{Outcomes: []check.Outcome{{Result: check.OK}, {Result: check.Failed, Findings: []check.Finding{{Result: check.Failed, Message: "no"}}}}}
	var out bytes.Buffer
	if err := writeCheckJSON(&out, report, false); err != nil {
		t.Fatal(err)
	}
	var back checkReport
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Sound || !back.Judged || back.Counts[check.Failed] != 1 || len(back.Checks) != 2 {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestResultsOfCheckArePaintedWhereColoursAreWanted(t *testing.T) {
	report := check.Report{Outcomes: []check.Outcome{{Result: check.Failed, Findings: []check.Finding{{Result: check.Failed, Message: "no"}}}}}
	for _, colour := range []bool{true, false} {
		var out bytes.Buffer
		if err := check.Write(&out, report, false, colour); err != nil || strings.Contains(out.String(), "\x1b[31mfailed") != colour || strings.Contains(out.String(), "\x1b") != colour {
			t.Errorf("colours %t: %v %q", colour, err, &out)
		}
	}
}
