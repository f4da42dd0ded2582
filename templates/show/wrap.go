package show

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text into lines between words. The first line has at most first characters, the others at most
// others. It cuts a word that is longer than a line, after a separator if it has one. It drops only the spaces
// at the ends of lines.
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

// breakAt returns the byte at which to cut a word that is longer than a line: after a separator in the second
// half of the line, if there is one.
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
