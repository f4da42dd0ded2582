package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	evanphx "gopkg.in/evanphx/json-patch.v4"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return v
}

func text(t testing.TB, v any) string {
	t.Helper()
	return string(rawjson.Append(nil, v))
}

func TestCheckRefusesAPatchThatCannotBeSent(t *testing.T) {
	for name, c := range map[string]struct {
		op    string
		path  []string
		value any
	}{
		"an unknown op":            {"move", []string{"a"}, "x"},
		"the whole document":       {Replace, nil, "x"},
		"a key that is not UTF-8":  {Add, []string{"\xff"}, "x"},
		"text that is not UTF-8":   {Add, []string{"a"}, []any{"\xc3("}},
		"an inner key not UTF-8":   {Add, []string{"a"}, map[string]any{"\xff": nil}},
		"text that is no number":   {Add, []string{"a"}, json.Number("0x1")},
		"an empty number":          {Add, []string{"a"}, json.Number("")},
		"a keyword as a number":    {Add, []string{"a"}, json.Number("true")},
		"two numbers":              {Add, []string{"a"}, json.Number("1 2")},
		"a float, which may round": {Add, []string{"a"}, map[string]any{"b": 1.5}},
	} {
		t.Run(name, func(t *testing.T) {
			intended := map[string]any{}
			if len(c.path) > 0 {
				intended[c.path[0]] = c.value
			}
			if err := Check(t.Context(), map[string]any{}, []Operation{New(c.op, c.path, c.value)}, intended); err == nil {
				t.Fatal("it is accepted")
			}
		})
	}
}

// applyAll returns a document after the operations.
func applyAll(t testing.TB, doc map[string]any, ops ...Operation) (map[string]any, error) {
	root, err := applied(t.Context(), doc, ops)
	if err != nil {
		return nil, err
	}
	return plain(root).(map[string]any), nil
}

// plain returns a value as encoding/json decodes it.
func plain(v any) any {
	switch v := v.(type) {
	case object:
		m := map[string]any{}
		for key, value := range v {
			m[key] = plain(value)
		}
		return m
	case *list:
		l := make([]any, len(v.items))
		for i, item := range v.items {
			l[i] = plain(item)
		}
		return l
	default:
		return v
	}
}

func TestCheckFindsEachKindOfDifference(t *testing.T) {
	original := decode(t, `{"a":{"b":[1,{"c":"x"}]},"n":1}`).(map[string]any)
	ops := []Operation{New(Add, []string{"a", "b", "1", "d/e"}, json.Number("1.0"))}
	if err := Check(t.Context(), original, ops, decode(t, `{"a":{"b":[1,{"c":"x","d/e":1.0}]},"n":1}`).(map[string]any)); err != nil {
		t.Fatalf("the intended pod is reported as different: %v", err)
	}
	for want, intended := range map[string]string{
		`"/a/b/1/d~1e"`: `{"a":{"b":[1,{"c":"x","d/e":1}]},"n":1}`,
		`"/a/b"`:        `{"a":{"b":[1,{"c":"x","d/e":1.0},2]},"n":1}`,
		`"/a/b/0"`:      `{"a":{"b":["1",{"c":"x","d/e":1.0}]},"n":1}`,
		`"/n"`:          `{"a":{"b":[1,{"c":"x","d/e":1.0}]},"m":1}`,
		`""`:            `{"a":{"b":[1,{"c":"x","d/e":1.0}]}}`,
	} {
		err := Check(t.Context(), original, ops, decode(t, intended).(map[string]any))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that names %s", err, want)
		}
	}
}

// hostile keys: each has broken some patch library.
var keys = rapid.OneOf(
	rapid.SampledFrom([]string{"a", "b", "", "/", "~", "~1", "~0", "-", "0", "1", "01", "é", "日本", "\u2028", "a/b~c", "\"", "<", " "}),
	rapid.String(),
)

func values(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.SampledFrom([]any{nil, true, false, json.Number("0"), json.Number("-0"), json.Number("1.0"),
			json.Number("12345678901234567890"), json.Number("1e400"), json.Number("-1E-7")}),
		rapid.Map(rapid.String(), func(s string) any { return s }),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(
		scalar,
		rapid.Map(rapid.MapOfN(keys, rapid.Deferred(func() *rapid.Generator[any] { return values(depth - 1) }), 0, 4), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return values(depth - 1) }), 0, 4), func(l []any) any { return l }),
	)
}

func documents() *rapid.Generator[map[string]any] {
	return rapid.MapOfN(keys, values(3), 0, 5)
}

// drawPath draws a path that mostly leads somewhere in doc.
func drawPath(t *rapid.T, doc any) []string {
	var path []string
	for {
		var segment string
		var next any
		switch v := doc.(type) {
		case map[string]any:
			segment = keys.Draw(t, "key")
			if have := slices.Sorted(maps.Keys(v)); len(have) > 0 && rapid.IntRange(0, 3).Draw(t, "existing") > 0 {
				segment = rapid.SampledFrom(have).Draw(t, "key")
			}
			next = v[segment]
		case []any:
			i := rapid.IntRange(-1, len(v)+1).Draw(t, "index")
			segment = fmt.Sprint(i)
			if i < 0 {
				segment = rapid.SampledFrom([]string{"-", "-1", "01", "x"}).Draw(t, "odd index")
			} else if i < len(v) {
				next = v[i]
			}
		default:
			segment = keys.Draw(t, "key")
		}
		path = append(path, segment)
		if next == nil || rapid.IntRange(0, 2).Draw(t, "stop") == 0 {
			return path
		}
		doc = next
	}
}

// applyLikeTheAPIServer applies ops with kube-apiserver's library.
func applyLikeTheAPIServer(t testing.TB, doc string, ops []Operation) (out string, err error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	wire := Marshal(ops)
	p, err := evanphx.DecodePatch(wire)
	if err != nil {
		t.Fatalf("the API server's library cannot read %s: %v", wire, err)
	}
	b, err := p.Apply([]byte(doc))
	if err != nil {
		return "", err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	errtest.ExpectNone(t, d.Decode(&v))
	return text(t, v), nil
}

func TestApplyAgreesWithTheLibraryOfTheAPIServer(t *testing.T) {
	applied := 0
	rapid.Check(t, func(rt *rapid.T) {
		doc := documents().Draw(rt, "document")
		before := text(t, doc)
		var ops []Operation
		current := doc
		for range rapid.IntRange(1, 8).Draw(rt, "operations") {
			op := rapid.SampledFrom([]string{Add, Add, Replace, Remove}).Draw(rt, "op")
			var value any
			if op != Remove {
				value = values(2).Draw(rt, "value")
			}
			o := New(op, drawPath(rt, current), value)
			next, err := applyAll(t, current, o)
			if err != nil {
				if _, theirs := applyAll(t, doc, append(ops[:len(ops):len(ops)], o)...); theirs == nil {
					rt.Fatalf("refused alone and accepted in a row: %s", o.Pointer())
				}
				continue
			}
			ops, current = append(ops, o), next
			applied++
		}
		ours, err := applyAll(t, doc, ops...)
		errtest.ExpectNone(rt, err)
		theirs, err := applyLikeTheAPIServer(t, before, ops)
		if err != nil || text(t, ours) != theirs {
			rt.Fatalf("ours   %s\ntheirs %s (%v)", text(t, ours), theirs, err)
		}
		if text(t, ours) != text(t, current) {
			rt.Fatalf("in a row %s\none by one %s", text(t, ours), text(t, current))
		}
		if text(t, doc) != before {
			rt.Fatalf("the document was changed: %s\nwas %s", text(t, doc), before)
		}
		errtest.ExpectNone(rt, Check(t.Context(), doc, ops, current))
	})
	if applied == 0 {
		t.Fatal("no generated operation ever applied")
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(`{"a":{"b":[1,2]}}`, "add", "a/b/-", `{"x":1e400}`, "a/b/2/x", `12345678901234567890`)
	f.Add(`{"":{"~":null}}`, "replace", "/~", `[]`, "/~/-", `"\u2028"`)
	f.Add(`{"l":[[],[null]]}`, "remove", "l/0", `null`, "l/0/0", `0`)
	f.Add(`{"l":[1]}`, "test", "l", `[1]`, "l/0", `"0"`)
	f.Fuzz(func(t *testing.T, doc, op, path, value, path2, value2 string) {
		var m map[string]any
		d := json.NewDecoder(strings.NewReader(doc))
		d.UseNumber()
		if d.Decode(&m) != nil || m == nil {
			return
		}
		var ops []Operation
		for _, c := range [][3]string{{op, path, value}, {Add, path2, value2}} {
			d := json.NewDecoder(strings.NewReader(c[2]))
			d.UseNumber()
			var v any
			if d.Decode(&v) != nil {
				return
			}
			if c[0] == Remove {
				v = nil
			}
			ops = append(ops, New(c[0], strings.Split(c[1], "/"), v))
		}
		before := text(t, m)
		ours, err := applyAll(t, m, ops...)
		if text(t, m) != before {
			t.Fatalf("the document was changed: %s", text(t, m))
		}
		if err != nil {
			return
		}
		theirs, err := applyLikeTheAPIServer(t, before, ops)
		// Its test operation panics on null in arrays, and reads two spellings of
		// one text as different; test operations are not sent.
		if op == Test && err != nil {
			return
		}
		if err != nil || text(t, ours) != theirs {
			t.Fatalf("ours   %s\ntheirs %s (%v)", text(t, ours), theirs, err)
		}
	})
}
