package show

import (
	"strings"
	"testing"
	"testing/quick"
)

func TestWrappingLosesNoWordAndKeepsTheWidth(t *testing.T) {
	law := func(words []string, w uint8) bool {
		width := int(w%90) + 1
		text := strings.Join(words, " ")
		lines := Wrap(text, width)
		for _, line := range lines {
			if len([]rune(line)) > width && len(strings.Fields(line)) > 1 {
				return false
			}
		}
		return len(lines) > 0 && strings.Join(strings.Fields(strings.Join(lines, " ")), " ") == strings.Join(strings.Fields(text), " ")
	}
	if err := quick.Check(law, nil); err != nil {
		t.Error(err)
	}
	if got := strings.Join(Wrap("one two three", 7), "|"); got != "one two|three" {
		t.Error(got)
	}
}
