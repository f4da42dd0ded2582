package expression

import (
	"strings"
	"testing"
)

// written puts parts together again as they are written, expressions in angles.
func written(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.IsExpr {
			b.WriteString("<" + p.Text + ">")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func TestExpressionsAreFoundInATextAsCELReadsThem(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"plain":                     "plain",
		"${a}":                      "<a>",
		"x${a}y${b}z":               "x<a>y<b>z",
		"$":                         "$",
		"$$":                        "$$",
		"$a $(b) $":                 "$a $(b) $",
		"$${a}":                     "${a}",
		"$$${a}":                    "$${a}",
		"$${${a}}":                  "${<a>}",
		"${ {'a': {'b': 1}}.a.b }":  "< {'a': {'b': 1}}.a.b >",
		"${'}'}":                    "<'}'>",
		`${"}"}`:                    `<"}">`,
		`${'\'}'}`:                  `<'\'}'>`,
		`${'\\'}`:                   `<'\\'>`,
		`${r'\'}`:                   `<r'\'>`,
		`${R"\"}`:                   `<R"\">`,
		`${br'\'}`:                  `<br'\'>`,
		`${b'\'}'}`:                 `<b'\'}'>`,
		`${'''a'}'b'''}`:            `<'''a'}'b'''>`,
		`${"""a"}"b"""}`:            `<"""a"}"b""">`,
		`${'''\'''}'''}`:            `<'''\'''}'''>`,
		`${''}`:                     `<''>`,
		"${a // }\n}":               "<a // }\n>",
		"${a / b}":                  "<a / b>",
		"${matches(x, 'a{1,2}')}}":  "<matches(x, 'a{1,2}')>}",
		"{{ }} ${'{'} ${'}'} {{ }}": "{{ }} <'{'> <'}'> {{ }}",
	} {
		parts, err := Scan(in)
		if got := written(parts); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]error{
		"${": errUnclosed, "${a": errUnclosed, "a ${'}": errUnclosed, `${"}`: errUnclosed, "${ {'a': 1} ": errUnclosed,
		"${'\\'}": errUnclosed, "${a // }": errUnclosed, "${'''}'}": errUnclosed, "${}": errEmpty, "x${ \n }": errEmpty,
	} {
		if parts, err := Scan(in); err != want {
			t.Errorf("%q: %q, %v; want %v", in, written(parts), err, want)
		}
	}
}

// FuzzScan holds that a text is never lost: what is found is what was written.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{"", "a${b}c", "$${a}", "${'}'}", "${r'\\'}", "${'''}'''}", "${{}}", "${a // }\n}", "$$${a}$", "${\"\\\"}\"}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := Scan(text)
		if err != nil {
			return
		}
		var b strings.Builder
		end := 0
		for i, p := range parts {
			if p.Text == "" {
				t.Fatalf("%q: part %d is empty", text, i)
			}
			if !p.IsExpr {
				if i > 0 && !parts[i-1].IsExpr {
					t.Fatalf("%q: two literal parts in a row", text)
				}
				continue
			}
			if text[p.Offset:p.Offset+len(p.Text)] != p.Text || text[p.Offset-2:p.Offset] != "${" || text[p.Offset+len(p.Text)] != '}' || p.Offset-2 < end {
				t.Fatalf("%q: the expression %q is not at %d", text, p.Text, p.Offset)
			}
			b.WriteString(text[end : p.Offset-2])
			end = p.Offset + len(p.Text) + 1
		}
		b.WriteString(text[end:])
		var literal strings.Builder
		for _, p := range parts {
			if !p.IsExpr {
				literal.WriteString(p.Text)
			}
		}
		if strings.ReplaceAll(b.String(), "$${", "${") != literal.String() {
			t.Fatalf("%q: the literal text is %q", text, literal.String())
		}
	})
}
