package explain_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/policy"
	"github.com/pillion-dev/pillion/inspect/explain"
	"github.com/pillion-dev/pillion/templates/show"
)

// text draws a sentence with words of all lengths, some of which a terminal would obey.
func text(t *rapid.T, label string) string {
	word := rapid.OneOf(rapid.StringMatching(`[a-z./=\[\]",-]{1,12}`), rapid.StringMatching(`[a-z./=-]{60,140}`), rapid.StringN(1, 6, -1), rapid.SampledFrom([]string{"\x1b[2J", "\r", "日本語", "é"}))
	return strings.Join(rapid.SliceOfN(word, 1, 12).Draw(t, label), " ")
}

// command draws a command, which no line's end may break.
func command(t *rapid.T) string { return "kubectl " + text(t, "command") }

func drawReport(t *rapid.T) explain.Report {
	p := explain.Pod{
		Name: text(t, "name"), Namespace: text(t, "namespace"), Verdict: text(t, "verdict"), Message: text(t, "message"),
		Called:      &explain.CallState{Why: text(t, "why"), Then: text(t, "then")},
		Rules:       []policy.Step{{Rule: text(t, "rule"), Input: text(t, "input"), Result: text(t, "result")}},
		NotAsked:    []string{text(t, "not asked")},
		Templates:   []explain.Template{{Name: text(t, "template"), Parameters: []explain.Parameter{{Name: text(t, "parameter"), Value: text(t, "value"), From: "Pod", Annotation: text(t, "annotation")}}}},
		Standings:   []drift.Template{{Name: text(t, "standing"), State: drift.Missing, Gets: text(t, "gets")}},
		Differences: []string{text(t, "difference")},
		Effects:     []injector.Effect{{Path: text(t, "path"), Effect: merge.Added, Templates: []string{"t"}, Now: text(t, "now")}},
		KeptValues:  []injector.PodValue{{Path: text(t, "kept"), Template: "t", Why: merge.KeptByRule, Has: text(t, "has"), Wants: text(t, "wants")}},
		Running:     &explain.Running{OutdatedPods: []explain.RunningPod{{Name: text(t, "pod"), Text: text(t, "says")}}, Remedy: command(t)},
		DryRun:      &explain.DryRun{Text: text(t, "dry run"), Warnings: []string{text(t, "heard")}},
		Warnings:    []string{text(t, "warning")}, Notes: []explain.Note{{Text: text(t, "note"), Remedy: []string{command(t), command(t)}}},
	}
	ns := explain.Namespace{Name: text(t, "ns"), Called: text(t, "called"), Annotations: map[string]string{text(t, "key"): text(t, "of key")}, Keys: []string{text(t, "meaningless")}}
	return explain.Report{Namespaces: []explain.Namespace{ns}, Pods: []explain.Pod{p}, Notes: []explain.Note{{Text: text(t, "general note")}}}
}

// isCommand finds the lines of commands.
var isCommand = regexp.MustCompile(`^ +(new pods: )?kubectl `)

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// No line but those of commands is wider than asked for; all of the text is there, however
// wide; colours change nothing else; and no text of a tenant reaches the terminal as more than
// text.
func TestATextFitsItsWidthAndLosesNothing(t *testing.T) {
	write := func(t *rapid.T, r explain.Report, s explain.Style) string {
		var b strings.Builder
		if err := r.Text(&b, s); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	letters := func(s string) string { return strings.Join(strings.Fields(s), "") }
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t)
		width := rapid.IntRange(40, 200).Draw(t, "width")
		out := write(t, r, explain.Style{Width: width})
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && !isCommand.MatchString(line) {
				t.Fatalf("%d columns, want %d at most: %q", n, width, line)
			}
			if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\r\x00") {
				t.Fatalf("a terminal would obey %q", line)
			}
		}
		if wide := write(t, r, explain.Style{Width: 100000}); letters(out) != letters(wide) {
			t.Fatalf("with %d columns %s\nwith all %s", width, out, wide)
		}
		coloured := write(t, r, explain.Style{Width: width, Colour: true})
		if got := escapes.ReplaceAllString(coloured, ""); got != out {
			t.Fatalf("without its colours\n%s\nwant\n%s", got, out)
		}
	})
}

// A value of a team may have a quarter of a megabyte. It does not flood the terminal of the person
// who looks at the pod.
func TestALongValueIsCutAndTheJSONHasIt(t *testing.T) {
	long := strings.Repeat("x", 256<<10)
	r := explain.Report{
		Namespaces: []explain.Namespace{{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": long}}},
		Pods: []explain.Pod{{
			Name: "Pod/web", Templates: []explain.Template{{Name: "side", Parameters: []explain.Parameter{{Name: "level", Value: long}}}},
			Standings: []drift.Template{{Name: long, State: drift.Dropped, Has: long}}, KeptValues: []injector.PodValue{{Path: "a", Has: long, Wants: long}},
		}},
	}
	var text, encoded strings.Builder
	if err := r.Text(&text, explain.Style{Width: 80}); err != nil || len(text.String()) > 20000 || !strings.Contains(strings.Join(strings.Fields(text.String()), " "), "characters more: -o json)") {
		t.Errorf("%v: %d characters", err, len(text.String()))
	}
	if err := show.JSON(&encoded, r); err != nil || strings.Count(encoded.String(), long) != 6 {
		t.Errorf("the JSON has it %d times: %v", strings.Count(encoded.String(), long), err)
	}
}
