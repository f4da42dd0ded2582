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
	const text = `# Faults

| word | means |
| --- | --- |
| fault | refused for |

| fault | enforced | refused for | bare for |
| --- | --- | --- | --- |
| ` + "`kill-one`" + ` | some words | 1.5 s | never |
| stop | | 15 s, until the kubelet restarts it | 0 s |
`
	got, err := parseWindows(text, NameColumn)
	want := map[string]Window{"kill-one": {1500 * time.Millisecond, -1}, "stop": {15 * time.Second, 0}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
	for _, bad := range []string{"soon", "15", "15 m", "-1 s", ""} {
		if _, err := parseWindows(strings.Replace(text, "15 s,", bad, 1), NameColumn); err == nil && bad != "" {
			t.Errorf("%q is taken for a window", bad)
		}
	}
	if _, err := parseWindows(text+"| stop | | 1 s | 1 s |\n", NameColumn); err == nil || !strings.Contains(err.Error(), "stop has two rows") {
		t.Errorf("a fault with two rows: %v", err)
	}
}

func TestTheDocumentStatesTheWindowsOfEveryFault(t *testing.T) {
	t.Parallel()
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		t.Fatal(err)
	}
	windows, err := ReadWindows(checkout.Path("docs", "concepts", "faults.md"), NameColumn)
	if err != nil {
		t.Fatal(err)
	}
	stated := slices.Sorted(maps.Keys(windows))
	var done []string
	for _, f := range faults {
		done = append(done, f.name)
	}
	slices.Sort(done)
	if !slices.Equal(stated, done) {
		t.Errorf("docs/concepts/faults.md has the faults\n%q, and the command does\n%q", stated, done)
	}
}
