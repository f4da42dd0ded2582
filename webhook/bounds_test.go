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

// What is cut off may be what to do.
func TestALongWarningOfAnyWebhookBecomesSeveral(t *testing.T) {
	got := boundWarnings([]string{strings.Repeat("because of this ", 20) + "take it out of that Helm value"})
	if len(got) != 2 || !strings.HasSuffix(got[0], " …") || !strings.HasPrefix(got[1], "… ") || !strings.HasSuffix(got[1], "take it out of that Helm value") {
		t.Errorf("%q", got)
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
