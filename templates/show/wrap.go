package show

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text into lines, between words: the first of at most so many characters, the
// others of as many as others says. A word that is longer than a line is cut, behind one of its
// separators where there is one. Only spaces at which a line ends are lost.
func Wrap(text string, first, others int) []string {
	var lines []string
	line, room := "", max(first, 1)
	end := func() { lines, line, room = append(lines, line), "", max(others, 1) }
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
