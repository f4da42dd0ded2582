package show

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

// obeyed are texts that a terminal would obey, and one that it shows.
const obeyed = "a\tb\n\x1b[2J\r\x7f\u009b31m\u202eé\u2028日本\U000e0001\xff"

func TestLinesForPeopleHoldNothingThatATerminalObeys(t *testing.T) {
	var b strings.Builder
	if n, err := fmt.Fprint(Writer(&b), obeyed); err != nil || n != len(obeyed) {
		t.Error(n, err)
	}
	if want := "a\tb\n" + `\x1b[2J\r\x7f\u009b31m\u202eé\u2028日本\U000e0001` + "\ufffd"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestJSONHoldsNothingThatATerminalObeysAndSaysTheSame(t *testing.T) {
	law := func(s string) bool {
		s += obeyed
		var b strings.Builder
		if err := JSON(&b, map[string]string{s: s}); err != nil {
			return false
		}
		for line := range strings.Lines(b.String()) {
			if !isPrintable(strings.TrimSuffix(line, "\n")) {
				t.Logf("%q", line)
				return false
			}
		}
		var back map[string]string
		want := strings.ToValidUTF8(s, string(utf8.RuneError))
		err := json.Unmarshal([]byte(b.String()), &back)
		return err == nil && len(back) == 1 && back[want] == want
	}
	if err := quick.Check(law, nil); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	if err := JSON(&b, map[string]any{"a": "<b>"}); err != nil || b.String() != "{\n  \"a\": \"<b>\"\n}\n" {
		t.Errorf("%v %q", err, b.String())
	}
}
