package workload

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/internal/errtest"
)

// Kubernetes' own conversion rounds them to float64.
func TestNumbersAreReadAndWrittenAsTheyStand(t *testing.T) {
	for _, number := range []string{"0", "-1", "1.10", "1e5", "9007199254740993", "18446744073709551616", "123456789012345678901234567890", "0.1234567890123456789012"} {
		for in, want := range map[string]string{
			"kind: Pod\nx: " + number + "\n":                                   "kind: Pod\nx: " + number + "\n",
			`{"kind":"Pod","x":[{"a":` + number + `}]}`:                        "kind: Pod\nx:\n- a: " + number + "\n",
			"a: &n\n- " + number + "\nb: *n\n":                                 "a:\n- " + number + "\nb:\n- " + number + "\n",
			"x: '" + number + "'\nz: |-\n  " + number + "\n":                   "x: \"" + number + "\"\nz: \"" + number + "\"\n",
			"base: &base {a: 1}\nx: {<<: *base, b: {c: [" + number + "]}}\n\n": "base:\n  a: 1\nx:\n  a: 1\n  b:\n    c:\n    - " + number + "\n",
		} {
			documents, err := Parse([]byte(in))
			if err != nil {
				t.Fatalf("%s: %v", in, err)
			}
			if got, err := YAML(documents[0].Object); err != nil || got != want {
				t.Errorf("%s\nis written as\n%s(%v)want\n%s", in, got, err, want)
			}
		}
	}
}

// Values that kubectl does not read as JSON numbers are read as kubectl reads them.
func TestTheRestIsReadAsKubectlReadsIt(t *testing.T) {
	in := "a: y\nb: off\nc: 0x10\nd: 0777\ne: 1_000\nf: .5\ng: 1e400\nh: 2026-01-01\ni: ~\nj: .inf2\nk: 1:30\n"
	documents, err := Parse([]byte(in))
	errtest.ExpectNone(t, err)
	got, _ := json.Marshal(documents[0].Object)
	want, err := yaml.YAMLToJSON([]byte(in))
	errtest.ExpectNone(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s\nis read as %s\nwant       %s", in, got, want)
	}
}

// Written YAML reads back as the same object. So it does by kubectl's reader, if float64
// holds the numbers.
func TestWrittenYAMLReadsBackAsTheSameObject(t *testing.T) {
	texts := []string{"", "y", "null", "1", "1.0", "0x1", "a: b", "- a", "#", " a ", "a\nb\n", "\n a", "tab\there", "é\u2028", "\"'", "*a", "&a", "!a", "%a", "@a", "`a", "{}", "[]", "<<", "---", "2026-01-01", "1:30", "=", strings.Repeat("long text ", 30)}
	random := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) any
	value = func(depth int) any {
		switch n := random.IntN(7); {
		case n == 0 && depth > 0:
			list := make([]any, random.IntN(4))
			for i := range list {
				list[i] = value(depth - 1)
			}
			return list
		case n <= 2 && depth > 0:
			object := map[string]any{}
			for range random.IntN(4) {
				object[texts[random.IntN(len(texts))]] = value(depth - 1)
			}
			return object
		case n == 3:
			return json.Number([]string{"0", "-7", "1.5", "123456", "1e+20"}[random.IntN(5)])
		case n == 4:
			return random.IntN(2) == 0
		case n == 5:
			return nil
		}
		return texts[random.IntN(len(texts))]
	}
	for range 3000 {
		object := map[string]any{"kind": "Pod", "value": value(4)}
		text, err := YAML(object)
		errtest.ExpectNone(t, err)
		documents, err := Parse([]byte(text))
		if err != nil || len(documents) != 1 || !reflect.DeepEqual(documents[0].Object, object) {
			t.Fatalf("%#v\nis written as\n%s\nand read as %#v (%v)", object, text, documents, err)
		}
		kubectls, err := yaml.YAMLToJSONStrict([]byte(text))
		want, _ := json.Marshal(object)
		var a, b any
		if err != nil || json.Unmarshal(kubectls, &a) != nil || json.Unmarshal(want, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%s\nis read by kubectl as %s (%v), want %s", text, kubectls, err, want)
		}
	}
}

// Which of two such keys counts would be chance.
func TestTwoKeysThatAreTheSameAsTextAreRefused(t *testing.T) {
	for in, good := range map[string]bool{
		"0: a\n0.: b": false, "a: [{1: x, 1.0: y}]": false, "b: &x {1: a}\nc: {<<: *x, 1.0: b}": false, "y: 1\n'true': 2": false,
		"0: a\n1: b": true, "a: {'1': x, '1.0': y}": true, "b: &x {1: a}\nc: {<<: *x, 2: b}": true,
	} {
		if _, err := Parse([]byte(in)); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "the same once they are text") {
			t.Errorf("%q: error %v", in, err)
		}
	}
}
