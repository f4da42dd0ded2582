package check

import (
	"fmt"
	"io"
	"strings"

	"github.com/pillion-dev/pillion/templates/show"
)

const bold = "1"

// colours are ANSI codes.
var colours = map[Result]string{OK: "32", Warning: "33", Failed: "31", Skipped: "90"}

// Results are all results, in the order of the last line of a report.
var Results = []Result{OK, Warning, Failed, Skipped}

const (
	lineWidth = 80
	// indent is the column at which sentences begin.
	indent = 10
)

// Write prints a report. It wraps sentences at 80 columns, but not commands, so that they can be
// copied. A remedy of several findings in a row is printed below the last one, and a command that
// grants a right is printed once.
func Write(w io.Writer, r Report, strict, colour bool) error {
	paint := func(code, text string) string {
		if !colour {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	var out strings.Builder
	printed := map[string]bool{}
	for _, o := range r.Outcomes {
		line := func(result Result, text string) {
			label := paint(colours[result], fmt.Sprintf("%-7s", result))
			for i, line := range show.Wrap(show.Plain(text), lineWidth-indent, lineWidth-indent) {
				if i > 0 {
					label = strings.Repeat(" ", 7)
				}
				fmt.Fprintf(&out, "  %s %s\n", label, line)
			}
		}
		if len(o.Findings) == 0 {
			line(OK, o.Name+": "+o.Description)
		}
		for i, f := range o.Findings {
			line(f.Result, o.Name+": "+f.Message)
			again := i+1 < len(o.Findings) && o.Findings[i+1].Remedy == f.Remedy || f.Result == Skipped && printed[f.Remedy]
			if f.Remedy != "" && !again {
				printed[f.Remedy] = true
				fmt.Fprintf(&out, "%*s  %s\n", indent, "", paint(bold, show.Printable(f.Remedy)))
			}
		}
		if o.Result == Failed {
			for _, line := range show.Wrap(o.Hint, lineWidth-indent, lineWidth-indent) {
				fmt.Fprintf(&out, "%*s%s\n", indent, "", line)
			}
		}
	}
	verdict := "The installation is " + paint(colours[OK], "sound")
	switch {
	case !r.IsConclusive():
		verdict = paint(colours[Warning], "It is not known whether the installation is sound") + " without the rights above"
	case !r.IsSound(strict):
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
