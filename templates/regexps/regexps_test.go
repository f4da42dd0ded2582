package regexps

import (
	"regexp/syntax"
	"strings"
	"testing"
)

// What is estimated is no less than what the library makes of it, and not far more.
func TestTheSizeIsThatOfTheProgram(t *testing.T) {
	for _, text := range []string{
		"", "a", "abc", "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "(a|b|cd)*", "(?:a+b*c?){3,}", "a{1000}", "a{0,1000}", "(?i)k{20}", "(a{10}){20}", "((a?){9}){9}", "^a$|\\bx\\B", "x{0}", "(?:(?:){1000})",
		"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?", ".{1,253}", "(|a)*", "(?:|||)", "\\pL{5}",
	} {
		re, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		n, size := len(program.Inst), Size(text)
		for _, i := range program.Inst {
			n += len(i.Rune) / 8
		}
		if size+4 < n || size > 3*n+10 {
			t.Errorf("%s: %d, and has %d", text, size, n)
		}
	}
}

func TestTheSizeDoesNotOverflow(t *testing.T) {
	for _, text := range []string{strings.Repeat("a{1000}", 2000), "(" + strings.Repeat("(a{100}b{100}){2}", 200) + ")*", strings.Repeat(`\pL`, 5000)} {
		if got := Size(text); got < 30_000 || got > most {
			t.Errorf("%.20s: %d", text, got)
		}
	}
}

func TestPatternsOfATemplateCountTogether(t *testing.T) {
	b := For(true)
	if err := b.Take("a{900}"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"b{900}":                  "some 901 instructions; allowed are 1000 for all of the template, 99 of them left",
		strings.Repeat("x", 1025): "of 1025 bytes; allowed are 1024",
	} {
		if err := b.Take(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", text, err, want)
		}
	}
	if err := b.Take("(not one"); err != nil {
		t.Errorf("what is no regular expression: %v, and says the compiler", err)
	}
}
