package webhook

import (
	"fmt"
	"strings"
	"testing"
)

func TestWarningsFitWhatTheAPIServerPassesOn(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("%d\n%s", i, strings.Repeat("ü", 400)))
	}
	total := 0
	for _, w := range boundWarnings(append(many, "", "0")) {
		if n := len([]rune(w)); n >= 256 || w != printable(w) {
			t.Errorf("%d characters: %q", n, w)
		}
		total += len([]rune(w))
	}
	if total >= 4096 || total < 2000 {
		t.Errorf("%d characters in all", total)
	}
}

func TestALongRefusalKeepsItsLinesAndItsReason(t *testing.T) {
	got := boundMessage([]string{"first\nstill first", strings.Repeat("ü", 2*maxMessage), "last\x1b[31m (TemplateInvalid)"})
	if n := len([]rune(got)); n != maxMessage {
		t.Errorf("%d characters, want %d", n, maxMessage)
	}
	if !strings.HasPrefix(got, "first still first\nü") || !strings.HasSuffix(got, "ü\nlast [31m (TemplateInvalid)") || !strings.Contains(got, "ü…ü") {
		t.Errorf("%q", got)
	}
}

func TestALongSentenceIsCutBetweenWords(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("words and ", 100), strings.Repeat("x", 3000), strings.Repeat("ä ", 400), strings.Repeat("💥", 300), "a " + strings.Repeat("y", 600)} {
		all := inParts(text)
		if len(all) > maxParts {
			t.Errorf("%d parts", len(all))
		}
		for i, part := range all {
			if n := len([]rune(part)); n > maxWarning && i < len(all)-1 {
				t.Errorf("a part of %d characters", n)
			}
		}
		if joined := strings.ReplaceAll(strings.Join(all, "\n"), " …\n… ", ""); strings.ReplaceAll(joined, " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Errorf("%q becomes %q", text, joined)
		}
	}
}
