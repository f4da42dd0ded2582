package show

import (
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

func TestWrappingLosesNothingAndKeepsTheWidth(t *testing.T) {
	law := func(words []string, f, o uint8) bool {
		first, others := int(f%90)+1, int(o%90)+1
		text := strings.ToValidUTF8(strings.Join(words, " "), "x")
		room := first
		lines := Wrap(text, first, others)
		for _, line := range lines {
			if utf8.RuneCountInString(line) > room {
				return false
			}
			room = others
		}
		return len(lines) > 0 && strings.Join(strings.Fields(strings.Join(lines, "")), "") == strings.Join(strings.Fields(text), "")
	}
	if err := quick.Check(law, nil); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"", 7, ""}, {"one two three", 7, "one two|three"}, {"a sixteen-letters", 8, "a|sixteen-|letters"}, {"abcdefghijk", 7, "abcdefg|hijk"}} {
		if got := strings.Join(Wrap(c.text, c.width, c.width), "|"); got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}
