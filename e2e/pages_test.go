package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/pillion-dev/pillion/docs/transcript"
)

// recorded compares a block of a page with what commands print on a real Kubernetes, and
// writes it with -update.
func recorded(t *testing.T, page, name string, change func(now string) string) {
	t.Helper()
	transcript.Recorded(t, checkout.Path("docs", page), name, *update, change)
}

// What differs from run to run: the names of ReplicaSets and their pods, and times.
var (
	ofDeployment = regexp.MustCompile(`\bweb-([0-9a-z]{6,10})(-[0-9a-z]{5})?\b`)
	times        = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

// The same in the output of kubectl.
var (
	ages = regexp.MustCompile(`(\s)(\d+m\d+s|\d+s|\d+m|<unknown>|<invalid>)( \(x\d+ over (\d+m)?\d+s\))?(\s|$)`)
	gap  = regexp.MustCompile(` {2,}|\t+`)
)

// shown is what a command prints, as a page shows it. What differs from run to run has one form;
// the columns of kubectl are aligned to that. Elsewhere a name gives way to one of its length, so
// that lines break in the same places. names are texts that stand for others, in pairs.
func shown(command, output string, names ...string) string {
	const hash = "7c9f4b5d8f"
	kubectl := strings.HasPrefix(command, "kubectl")
	output = strings.NewReplacer(names...).Replace(output)
	output = ofDeployment.ReplaceAllStringFunc(output, func(name string) string {
		found := ofDeployment.FindStringSubmatch(name)
		length := len(found[1])
		if kubectl {
			length = len(hash)
		}
		name = "web-" + hash[:length]
		if found[2] != "" {
			name += "-x2k6v"
		}
		return name
	})
	output = times.ReplaceAllString(output, "2026-11-22T12:00:00Z")
	if !kubectl {
		return output
	}
	output = ages.ReplaceAllString(output, "${1}5s${5}")
	var aligned strings.Builder
	table := tabwriter.NewWriter(&aligned, 0, 4, 2, ' ', 0)
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, " \t\n")
		text := strings.TrimLeft(line, " \t")
		indent := strings.ReplaceAll(line[:len(line)-len(text)], "\t", "  ")
		_, _ = table.Write([]byte(indent + gap.ReplaceAllString(text, "\t") + "\n"))
	}
	_ = table.Flush()
	var lines []string
	for line := range strings.Lines(aligned.String()) {
		lines = append(lines, strings.TrimRight(line, " \n")+"\n")
	}
	if at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  ----") }); strings.HasPrefix(command, "kubectl describe") && at >= 0 {
		slices.Sort(lines[at+1:]) // events of one second come in any order
	}
	return strings.Join(lines, "")
}
