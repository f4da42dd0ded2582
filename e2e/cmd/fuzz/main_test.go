package main

import (
	"slices"
	"testing"
)

func TestTargetsBelongToThePackageThatIsNamedAfterThem(t *testing.T) {
	got := parseList("FuzzA\nFuzzB\nok  \texample.com/x\t0.1s\n?   \texample.com/y\t[no test files]\nok  \texample.com/v\t0.1s\nFuzzC\nok  \texample.com/z\t(cached)\n")
	want := []target{{"example.com/x", "FuzzA"}, {"example.com/x", "FuzzB"}, {"example.com/z", "FuzzC"}}
	if !slices.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

func TestTheLastReportedCountIsTheCount(t *testing.T) {
	out := "fuzz: elapsed: 3s, execs: 100 (33/sec), new interesting: 1\nfuzz: elapsed: 6s, execs: 250 (50/sec), new interesting: 2\n"
	if got := executions(out); got != "250" {
		t.Errorf("executions %s, want 250", got)
	}
}
