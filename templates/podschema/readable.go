package podschema

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Readable writes a keyed path as people do: spec.containers[name=web].env[name=FOO],
// metadata.labels["a.b/c"]. A segment of a keyed path is a field, a map's key,
// or the [Identity.Key] of a list's item.
func Readable(path []string) string {
	var b strings.Builder
	for i, segment := range path {
		name, _, isItem := strings.Cut(segment, "=")
		switch {
		case isItem && plain(name):
			b.WriteString("[" + Clip(segment) + "]")
		case i == 0:
			b.WriteString(segment)
		case plain(segment) && segment != "":
			b.WriteString("." + segment)
		default:
			b.WriteString("[" + strconv.Quote(Clip(segment)) + "]")
		}
	}
	return b.String()
}

func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// Show writes a value for a message as JSON, cut to a length of which several fit.
func Show(v any) string { return Clip(string(Encode(v))) }

const maxShown = 80

// Clip cuts a text that is too long for a message.
func Clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
