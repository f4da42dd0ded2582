package show

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValuesAndMessagesStayOnOneLineAndShort(t *testing.T) {
	for text, want := range map[string]string{
		"a":          `"a"`,
		"a\n\x1b[1m": `"a\n\x1b[1m"`,
		`"`:          `"\""`,
		"ä\u2028":    `"ä\u2028"`,
	} {
		if got := Value(text); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	if got := Plain("a \"b\"\n\u2028ä"); got != `a "b"\n\u2028ä` {
		t.Errorf("plain: %s", got)
	}
	long := strings.Repeat("ä", 1000)
	if v, m := []rune(Value(long)), []rune(Plain(long)); len(v) != MaxValue+3 || len(m) != maxMessage+1 {
		t.Errorf("a long text: %d and %d code points", len(v), len(m))
	}
}

func TestTheMarkedPartOfATextIsAroundTheMark(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	for _, c := range []struct {
		text   string
		offset int
		want   string
	}{
		{"", 0, `">>>"`}, {"ab", 1, `"a>>>b"`}, {"ab", 2, `"ab>>>"`}, {"a\nb", 1, `"a>>>\nb"`},
		{long + "b" + long, 2000, `"…` + long[:100] + ">>>b" + long[:98] + `…"`},
		{"ä", 1, "\"\ufffd>>>\ufffd\""},
	} {
		if got := Marked(c.text, c.offset); got != c.want {
			t.Errorf("%q at %d: %s, want %s", c.text, c.offset, got, c.want)
		}
	}
}

func TestKindsOfJSON(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{{nil, "null"}, {"a", "text"}, {json.Number("1"), "a number"}, {true, "a boolean"}, {[]any{}, "a list"}, {map[string]any{}, "an object"}} {
		if got := Kind(c.v); got != c.want {
			t.Errorf("%v: %s", c.v, got)
		}
	}
}
