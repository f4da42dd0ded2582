package expression

import (
	"errors"
	"strings"
)

// Part is a piece of a text with ${…}.
type Part struct {
	// Text is the literal text, or the expression's source.
	Text   string
	IsExpr bool
	// Offset is the byte at which the expression's source begins.
	Offset int
}

var (
	errUnclosed = errors.New("${ without its }; for a literal ${ write $${")
	errEmpty    = errors.New("${} holds no expression; for a literal ${ write $${")
)

// Scan splits text into literal parts and expressions. $${ is a literal ${. A }
// inside an expression's strings, comments or braces does not end it.
func Scan(text string) ([]Part, error) {
	var parts []Part
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, Part{Text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		dollar := strings.IndexByte(text[i:], '$')
		if dollar < 0 {
			literal.WriteString(text[i:])
			break
		}
		literal.WriteString(text[i : i+dollar])
		i += dollar
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			literal.WriteString("${")
			i += len("$${")
		case strings.HasPrefix(rest, "${"):
			length, ok := expressionLength(rest[2:])
			if !ok {
				return nil, errUnclosed
			}
			source := rest[2 : 2+length]
			if strings.TrimSpace(source) == "" {
				return nil, errEmpty
			}
			flush()
			parts = append(parts, Part{Text: source, IsExpr: true, Offset: i + 2})
			i += 2 + length + 1
		default:
			literal.WriteByte('$')
			i++
		}
	}
	flush()
	return parts, nil
}

// expressionLength returns the length of the expression at the start of s, up to the closing }. It reports
// false if there is no closing }.
func expressionLength(s string) (int, bool) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i, true
			}
			depth--
		case '"', '\'':
			length, ok := stringLength(s[i:], isRaw(s, i))
			if !ok {
				return 0, false
			}
			i += length - 1
		case '/':
			if strings.HasPrefix(s[i:], "//") {
				end := strings.IndexByte(s[i:], '\n')
				if end < 0 {
					return 0, false
				}
				i += end
			}
		}
	}
	return 0, false
}

// isRaw reports whether the quote at s[at] opens a raw string: after r or R, with or without b or B, that is
// not the end of a name.
func isRaw(s string, at int) bool {
	start := at
	for start > 0 && isNameByte(s[start-1]) {
		start--
	}
	switch strings.ToLower(s[start:at]) {
	case "r", "br", "rb":
		return true
	}
	return false
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// stringLength returns the length of the CEL string at the start of s, with its quotes. It reports false if the
// string is not closed.
func stringLength(s string, raw bool) (int, bool) {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		if s[i] == '\\' && !raw {
			i++
			continue
		}
		if strings.HasPrefix(s[i:], quote) {
			return i + len(quote), true
		}
	}
	return 0, false
}
