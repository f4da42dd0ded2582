package explain

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pillion-dev/pillion/templates/show"
)

// Style is the style of a text.
type Style struct {
	// Width is the number of columns of a line, at least 40.
	Width int
	// Colour turns on the colours of a terminal.
	Colour bool
}

const (
	minWidth = 40
	// maxLabel bounds the first column.
	maxLabel = 24
)

// colour is an attribute of a terminal's text.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	red    colour = "1;31"
	green  colour = "32"
	yellow colour = "33"
	dim    colour = "2"
)

// layout writes lines that are no wider than the style's width.
type layout struct {
	b     strings.Builder
	width int
	paint bool
}

func newLayout(s Style) *layout { return &layout{width: max(s.Width, minWidth), paint: s.Colour} }

func (l *layout) paintText(text string, c colour) string {
	if !l.paint || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// text writes a paragraph. Its lines but the first are indented by two more columns.
func (l *layout) text(indent int, text string, c colour) {
	for i, line := range show.Wrap(printable(text), l.width-indent, l.width-indent-2) {
		if i > 0 {
			l.b.WriteString("  ")
		}
		l.b.WriteString(strings.Repeat(" ", indent))
		l.b.WriteString(l.paintText(line, c))
		l.b.WriteByte('\n')
	}
}

// heading writes a heading.
func (l *layout) heading(text string) {
	l.text(0, text, bold)
}

// commands writes each command on one line, so that it can be copied.
func (l *layout) commands(indent int, all []string) {
	for _, c := range all {
		l.command(indent, "", c)
	}
}

// command writes a label and a command on one line, without wrapping it.
func (l *layout) command(indent int, label, command string) {
	fmt.Fprintf(&l.b, "%*s%s%s\n", indent, "", label, l.paintText(show.Printable(command), bold))
}

// row is a label and its text.
type row struct {
	label, text string
	colour      colour
}

// rows writes labels and texts in two columns. A label that is wider than the first column gets
// a line of its own.
func (l *layout) rows(indent int, rows []row) {
	column := 0
	for _, r := range rows {
		if n := utf8.RuneCountInString(printable(r.label)); n <= maxLabel {
			column = max(column, n)
		}
	}
	column = min(max(column, 8), l.width/3)
	space := l.width - indent - column - 2
	for _, r := range rows {
		label := printable(r.label)
		fits := utf8.RuneCountInString(label) <= column
		if !fits {
			l.text(indent, label, plain)
			label = ""
		}
		for i, line := range show.Wrap(printable(r.text), space, space) {
			if i > 0 {
				label = ""
			}
			pad := strings.Repeat(" ", column+2-utf8.RuneCountInString(label))
			l.b.WriteString(strings.TrimRight(strings.Repeat(" ", indent)+label+pad+l.paintText(line, r.colour), " "))
			l.b.WriteByte('\n')
		}
	}
}

func (l *layout) blank() { l.b.WriteByte('\n') }

// maxShown bounds a text, in characters. A value that a team wrote can have hundreds of thousands.
const maxShown = 2000

// printable returns a text on one line, without control characters.
func printable(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	if more := utf8.RuneCountInString(text) - maxShown; more > 0 {
		text = fmt.Sprintf("%s… (and %d characters more: -o json)", string([]rune(text)[:maxShown]), more)
	}
	return show.Printable(text)
}
