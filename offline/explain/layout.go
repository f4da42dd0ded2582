package explain

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Style says how a text is written.
type Style struct {
	// Width is the number of columns of a line. Less than 40 counts as 40.
	Width int
	// Colour: with the colours of a terminal.
	Colour bool
}

const (
	minWidth = 40
	// widestLabel is the widest first column.
	widestLabel = 24
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

func (l *layout) painted(text string, c colour) string {
	if !l.paint || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// text writes a paragraph. Its lines but the first are indented by two more columns.
func (l *layout) text(indent int, text string, c colour) {
	for i, line := range wrapped(shown(text), l.width-indent, l.width-indent-2) {
		if i > 0 {
			l.b.WriteString("  ")
		}
		l.b.WriteString(strings.Repeat(" ", indent))
		l.b.WriteString(l.painted(line, c))
		l.b.WriteByte('\n')
	}
}

// heading begins a part.
func (l *layout) heading(text string) {
	l.text(0, text, bold)
}

// row is a label and its text.
type row struct {
	label, text string
	colour      colour
}

// rows writes labels and texts in two columns. A label that is too wide for the first column
// has a line of its own.
func (l *layout) rows(indent int, rows []row) {
	column := 0
	for _, r := range rows {
		if n := utf8.RuneCountInString(shown(r.label)); n <= widestLabel {
			column = max(column, n)
		}
	}
	column = min(max(column, 8), l.width/3)
	space := l.width - indent - column - 2
	for _, r := range rows {
		label := shown(r.label)
		fits := utf8.RuneCountInString(label) <= column
		if !fits {
			l.text(indent, label, plain)
			label = ""
		}
		for i, line := range wrapped(shown(r.text), space, space) {
			if i > 0 {
				label = ""
			}
			pad := strings.Repeat(" ", column+2-utf8.RuneCountInString(label))
			l.b.WriteString(strings.TrimRight(strings.Repeat(" ", indent)+label+pad+l.painted(line, r.colour), " "))
			l.b.WriteByte('\n')
		}
	}
}

func (l *layout) blank() { l.b.WriteByte('\n') }

// shown returns a text on one line, without anything that changes a terminal.
func shown(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	if !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// wrapped cuts a text into lines of so many columns, at its spaces where it can. Only spaces
// at which a line ends are lost.
func wrapped(text string, first, others int) []string {
	var lines []string
	line, room := "", first
	end := func() { lines, line, room = append(lines, line), "", others }
	for word := range strings.FieldsSeq(text) {
		used := utf8.RuneCountInString(line)
		if used > 0 && used+1+utf8.RuneCountInString(word) <= room {
			line += " " + word
			continue
		}
		if used > 0 {
			end()
		}
		for utf8.RuneCountInString(word) > room {
			at := breakAt(word, room)
			line, word = word[:at], word[at:]
			end()
		}
		line = word
	}
	return append(lines, line)
}

// breakAt returns the byte at which a word that is too long for a line is cut: behind one of
// its separators, if there is one in the second half of the line.
func breakAt(word string, room int) int {
	columns, at, last := 0, 0, 0
	for i, r := range word {
		if columns == room {
			break
		}
		columns++
		at = i + utf8.RuneLen(r)
		if columns > room/2 && strings.ContainsRune("/,.:;=]-_", r) {
			last = at
		}
	}
	if last > 0 {
		return last
	}
	return at
}
