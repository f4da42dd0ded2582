package faults

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

func TestWindowsAreReadFromTheTable(t *testing.T) {
	t.Parallel()
	const text = "| fault | refused for | bare for | |\n| --- | --- | --- | --- |\n" +
		"| `kill-one` | 1.5 s | never | some words |\n| `stop` | 15 s, the first time | 0 s | |\n"
	got, err := parseWindows(text)
	want := map[string]window{"kill-one": {1500 * time.Millisecond, never}, "stop": {15 * time.Second, 0}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
	for _, bad := range []string{"soon", "15", "15 m", "-1 s", "1.2.3 s", ""} {
		if _, err := parseWindows(strings.Replace(text, "1.5 s", bad, 1)); err == nil {
			t.Errorf("%q is taken for a window", bad)
		}
	}
	if _, err := parseWindows(text + "| `stop` | 1 s | 1 s | |\n"); err == nil || !strings.Contains(err.Error(), "stop has two rows") {
		t.Errorf("a fault with two rows: %v", err)
	}
}

func TestThePageStatesTheWindowsOfEveryFault(t *testing.T) {
	t.Parallel()
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		t.Fatal(err)
	}
	windows, err := readWindows(checkout)
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for _, f := range slices.Concat(nodeFaults, soakFaults) {
		done[f.name] = true
	}
	if stated, done := slices.Sorted(maps.Keys(windows)), slices.Sorted(maps.Keys(done)); !slices.Equal(stated, done) {
		t.Errorf("docs/concepts/faults.md has the faults\n%q, and the command does\n%q", stated, done)
	}
}
