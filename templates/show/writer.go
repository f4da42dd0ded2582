package show

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Writer returns a writer for lines that a person reads. It escapes control characters except tabs and ends of
// lines. Each write has to end at the end of a character.
func Writer(w io.Writer) io.Writer { return lines{w} }

type lines struct{ to io.Writer }

// Write implements [io.Writer].
func (l lines) Write(data []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(data) {
		if r == '\n' || r == '\t' {
			b.WriteRune(r)
			continue
		}
		appendPrintable(&b, r)
	}
	if _, err := io.WriteString(l.to, b.String()); err != nil {
		return 0, err
	}
	return len(data), nil
}

// JSON writes a value as indented JSON, and escapes the control characters that JSON itself allows.
func JSON(w io.Writer, v any) error {
	var text, out strings.Builder
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	for _, r := range text.String() {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out.WriteString(unit(high) + unit(low))
		default:
			out.WriteString(unit(r))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// unit escapes a unit of UTF-16.
func unit(r rune) string {
	digits := strconv.FormatInt(int64(r), 16)
	return `\u` + strings.Repeat("0", 4-len(digits)) + digits
}
