package manifest

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// lineBreak is what ends a line in YAML.
var lineBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// FuzzRead holds that any bytes are a manifest or an error with a place in them, and that a
// manifest, written as JSON, is the same manifest.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "a: 1", "a: &x [1, *x]", "a: &x {b: 1}\nc: *x\nd: {<<: *x}", "a: 1\na: 2", "- a", `{"a": 1e400, "b": 12345678901234567890}`, "a: !!binary YQ==", "a: 0x10\nb: 1_000\nc: .5", "? a\n: b",
		"a: |\n  b\n  # c\n", "---\na: 1\n---\nb: 2\n", "%YAML 1.1\n---\na: y", "\tkey: 1", "a: \"\\u0000\"", "\xef\xbb\xbfa: 1", "a: 2001-01-01", "1: a\ntrue: b\nnull: c", "a: [b, {c: d}]", "{", "a: \x00", "a: 'b", "0: 0\n0.:", "\r\r\"", "a: {0x1: b, 1: c}", "x: &x {1: a}\ny: {<<: *x, 0x1: b}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4<<10 {
			return
		}
		object, err := Read(text, NewSource(text, 1))
		again, err2 := Read(text, NewSource(text, 1))
		if !reflect.DeepEqual(object, again) || !reflect.DeepEqual(err, err2) {
			t.Fatalf("%v, %v, and then %v, %v", object, err, again, err2)
		}
		if err != nil {
			bad, ok := err.(*Error)
			if !ok || bad.Message == "" || strings.ContainsFunc(bad.Message, unicode.IsControl) || len(bad.Message) > 4096 {
				t.Fatalf("error %T %q", err, err)
			}
			if most := len(lineBreak.FindAll(text, -1)) + 2; bad.Line < 0 || bad.Line > most {
				t.Fatalf("line %d of %d", bad.Line, most)
			}
			return
		}
		written, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		read, err := Read(written, NewSource(written, 1))
		if err != nil || !reflect.DeepEqual(read, object) {
			t.Fatalf("%s is read as %v (%v)", written, read, err)
		}
	})
}

// FuzzDocuments holds that a file of any bytes is split into manifests that are in it, in
// their order, the same each time.
func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{
		"", "a: 1\n---\nb: 2\n", "kind: List\nitems:\n  - a: |\n      b\n    # c\n  - [d]\nmetadata: {}\n", `{"items":[{"a":1},{}],"kind":"List"}`, "---\n# nothing\n--- \r\nkind: List\nitems: []\n", "items: [a]\nkind: FooList\n",
		"kind: List\nitems:\n- a: &x 1\n- *x\n", "kind: List\ritems:\r- a\r", "\xef\xbb\xbfkind: List\nitems:\n- a\n", "...\n---x\n---\ta\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		docs := Documents(data)
		if again := Documents(data); !reflect.DeepEqual(docs, again) {
			t.Fatalf("%v, and then %v", docs, again)
		}
		last := 1
		for _, d := range docs {
			if most := len(lineBreak.FindAll(data, -1)) + 1; d.Line < last || d.Line > most {
				t.Fatalf("a manifest at line %d after line %d, of a file with %d lines", d.Line, last, most)
			}
			last = d.Line
			_, _ = Place(d, "spec", "inject", 0)
		}
	})
}
