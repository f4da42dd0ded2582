package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestATextThatIsNoManifestIsToldWithItsLineInTheFile(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		line int
		says string
	}{
		"bad YAML":          {"a: 1\nb: [\n", 12, "reading the manifest as YAML: did not find"},
		"an indentation":    {"a:\n  b:\n    c: 1\n   d: 2\ne: 1\n", 14, "reading the manifest as YAML: did not find expected key; compare the indentation of the line with the one before, and close quotes and brackets"},
		"an open quote":     {"a: \"b\nc: \"d\"\n", 11, "; compare the indentation of the line with the one before, and close quotes and brackets"},
		"a colon":           {"a: 1\nb: c: d\n", 12, `; quote a text with ": " in it, and compare the indentation of the line with the one before`},
		"a mark":            {"a: @b\n", 11, "found character that cannot start any token; quote the text"},
		"no quotes":         {"a: 1\nb: {c: 'x', d: ${params.x}}\ne: 1\n", 12, `inside {…} and […] quote ${…}, as in {name: "${params.name}"}`},
		"a tab":             {"a: 1\nb:\n\tc: 1\nd: 1\n", 13, "reading the manifest as YAML: found character that cannot start any token; indent with spaces, not with tabs"},
		"a tab below a key": {"a:\n- b: 1\n\tc: 1\n", 13, "; indent with spaces, not with tabs"},
		"a loop":            {"a: 1\nb: &b [*b]\n", 0, "anchor 'b' value contains itself"},
		"a list":            {"- a\n", 0, "the manifest must be an object; got a list"},
		"several at once":   {"a: 1\n---\nb: 1\n", 0, "several documents"},
		"larger than ever":  {strings.Repeat("#", MaxBytes+1), 0, "at most 1048576 are allowed"},
	} {
		_, err := Read([]byte(c.text), NewSource([]byte(c.text), 11))
		var located *Error
		if !errors.As(err, &located) || located.Line != c.line || !strings.Contains(located.Message, c.says) {
			t.Errorf("%s: %v, line %d", name, err, located.Line)
		}
	}
}

// Which of two such keys counts would be chance.
func TestTwoKeysThatAreTheSameAsTextAreRefused(t *testing.T) {
	for in, good := range map[string]bool{
		"0: a\n0.: b": false, "a: [{1: x, 1.0: y}]": false, "b: &x {1: a}\nc: {<<: *x, 1.0: b}": false, "y: 1\n'true': 2": false,
		"0: a\n1: b": true, "a: {'1': x, '1.0': y}": true, "b: &x {1: a}\nc: {<<: *x, 2: b}": true,
	} {
		if _, err := Read([]byte(in), NewSource([]byte(in), 1)); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "the same once they are text") {
			t.Errorf("%q: error %v", in, err)
		}
	}
}

func TestAFileIsSplitIntoItsManifests(t *testing.T) {
	docs := Documents([]byte("# only a comment\n---\na: 1\n--- # second\nb: |\n  text\n  ---- no start\n\n---\n\n--- {c: 1}\n...\n"))
	var got []string
	for _, d := range docs {
		got = append(got, fmt.Sprintf("%d:%s", d.Line, strings.ReplaceAll(string(d.Manifest), "\n", "|")))
	}
	want := []string{"2:---|a: 1|", "4:--- # second|b: ||  text|  ---- no start||", "11:--- {c: 1}|...|"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
