package check

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/show"
)

// The colours of texts, as ANSI codes.
const bold = "1"

var colours = map[Result]string{OK: "32", Warning: "33", Failed: "31", Skipped: "90"}

// Results are all results, in the order in which they are counted for people.
var Results = []Result{OK, Warning, Failed, Skipped}

const (
	lineWidth = 80
	// indent is where sentences begin.
	indent = 10
)

// Write prints a report. No line of words is longer than 80 columns; commands are neither broken
// nor cut, so that they can be copied. Checks of a section that are skipped for the same
// reason share a sentence, and where a right is missing for several, the commands stand below the
// first.
func Write(w io.Writer, r Report, strict, colour bool) error {
	paint := func(code, text string) string {
		if !colour {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	var out strings.Builder
	section, told := "", map[string]bool{}
	for i := 0; i < len(r.Outcomes); i++ {
		o := r.Outcomes[i]
		if o.Section != section {
			if section != "" {
				out.WriteByte('\n')
			}
			section = o.Section
			fmt.Fprintln(&out, paint(bold, section))
		}
		findings := o.Findings
		if len(findings) == 0 {
			findings = []Finding{{Result: OK, Says: o.Well}}
		}
		if names := skippedAlike(r.Outcomes[i:]); len(names) > 0 {
			i += len(names) - 1
			findings = slices.Clone(findings)
			findings[0].Says = strings.Join(names, ", ") + ": " + findings[0].Says
		}
		for _, f := range findings {
			lines := show.Wrap(show.Plain(f.Says), lineWidth-indent, lineWidth-indent)
			fmt.Fprintf(&out, "  %s %s\n", paint(colours[f.Result], fmt.Sprintf("%-7s", f.Result)), lines[0])
			for _, line := range lines[1:] {
				fmt.Fprintf(&out, "%*s%s\n", indent, "", line)
			}
			if said := strings.Join(f.Remedy, "\n"); f.Result != Skipped || !told[said] {
				told[said] = true
				for _, command := range f.Remedy {
					fmt.Fprintf(&out, "%*s  %s\n", indent, "", paint(bold, show.Printable(command)))
				}
			}
		}
	}
	verdict := "The installation is " + paint(colours[OK], "sound")
	switch {
	case !r.Judged():
		verdict = paint(colours[Warning], "It is not known whether the installation is sound") + " without the rights above"
	case !r.Sound(strict):
		verdict = "The installation is " + paint(colours[Failed], "not sound")
	}
	var counts []string
	for _, result := range Results {
		counts = append(counts, fmt.Sprintf("%d %s", r.Count(result), result))
	}
	fmt.Fprintf(&out, "\n%s: %s.\n", verdict, strings.Join(counts, ", "))
	_, err := io.WriteString(w, out.String())
	return err
}

// skippedAlike returns the names of the first outcomes that were skipped, in one section and for
// the same reason. A sentence about what was not looked at does not say what that is.
func skippedAlike(all []Outcome) []string {
	var names []string
	for _, o := range all {
		if len(o.Findings) != 1 || o.Findings[0].Result != Skipped || o.Section != all[0].Section || o.Findings[0].Says != all[0].Findings[0].Says {
			break
		}
		names = append(names, o.Name)
	}
	return names
}
