package show

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds on the code points of a value in a message, and of a quoted message.
const (
	MaxValue   = 100
	maxMessage = 400
)

// Value returns a value for a message: quoted, control characters escaped, and cut.
func Value(s string) string { return strconv.Quote(cut(s, MaxValue)) }

// mark marks a position in a text.
const mark = ">>>"

// Marked returns a text for a message, or the part of a long one around offset, quoted and with a mark at that
// byte.
func Marked(text string, offset int) string {
	before, after := []rune(text[:offset]), []rune(text[offset:])
	const around = MaxValue / 2
	start, end := "", ""
	if len(before) > around {
		before, start = before[len(before)-around:], "…"
	}
	if len(after) > around {
		after, end = after[:around], "…"
	}
	return strconv.Quote(strings.TrimLeft(start+string(before), " \n") + mark + strings.TrimRight(string(after)+end, " \n"))
}

// Plain returns a message without control characters, and cut.
func Plain(s string) string { return Printable(cut(s, maxMessage)) }

// Printable escapes the characters of a text that a terminal does not show: control characters, and marks that
// change the order of the text around them.
func Printable(s string) string {
	if isPrintable(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		appendPrintable(&b, r)
	}
	return b.String()
}

func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

func appendPrintable(b *strings.Builder, r rune) {
	if strconv.IsPrint(r) {
		b.WriteRune(r)
		return
	}
	quoted := strconv.QuoteRune(r)
	b.WriteString(quoted[1 : len(quoted)-1])
}

func cut(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes]) + "…"
}

// Some joins the first names of a list, at most so many, and counts the others: "a, b and 4 more".
func Some(names []string, most int) string { return SomeOf(names, most, len(names)) }

// SomeOf is [Some] for the known names of a total.
func SomeOf(names []string, most, total int) string {
	names = names[:min(most, len(names))]
	text := strings.Join(names, ", ")
	if more := total - len(names); more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// Kind describes the kind of a JSON value in words.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case json.Number, int64, float64:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}
