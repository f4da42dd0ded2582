package webhook

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of texts, in characters.
const (
	maxWarning  = 255
	maxWarnings = 4095
	maxMessage  = 8 << 10
	// endOfMessage is the length of the end that a cut message retains: the reason code is
	// there.
	endOfMessage = 512
)

// boundWarnings applies the API server's bounds to warnings: no control characters, each
// under 256 characters, together under 4,096. It splits longer warnings and drops duplicates.
func boundWarnings(warnings []string) []string {
	var bounded []string
	total := 0
	for _, warning := range warnings {
		for _, w := range inParts(printable(warning)) {
			if runes := []rune(w); len(runes) > maxWarning {
				w = string(runes[:maxWarning-1]) + "…"
			}
			if w == "" || slices.Contains(bounded, w) {
				continue
			}
			if total += utf8.RuneCountInString(w); total > maxWarnings {
				return bounded
			}
			bounded = append(bounded, w)
		}
	}
	return bounded
}

// maxParts bounds how many warnings one sentence takes.
const maxParts = 6

// inParts cuts a text between words into warnings that are short enough. An ellipsis marks each
// cut on both sides.
func inParts(text string) []string {
	const dots = "…"
	var all []string
	for utf8.RuneCountInString(text) > maxWarning && len(all) < maxParts-1 {
		head := string([]rune(text)[:maxWarning-len(" "+dots)])
		if space := strings.LastIndexByte(head, ' '); space > len(head)/2 {
			head = head[:space]
		}
		all = append(all, head+" "+dots)
		text = dots + " " + strings.TrimLeft(text[len(head):], " ")
	}
	return append(all, text)
}

// boundMessage joins the lines of a refusal, without control characters, and cuts the
// middle out of a message that is too long.
func boundMessage(lines []string) string {
	clean := make([]string, len(lines))
	for i, line := range lines {
		clean[i] = printable(line)
	}
	message := strings.Join(clean, "\n")
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage-endOfMessage-1]) + "…" + string(runes[len(runes)-endOfMessage:])
	}
	return message
}

// printable replaces characters that could break a header or a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
