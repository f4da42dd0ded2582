package rawjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	kjson "sigs.k8s.io/json"
)

// standard decodes as the standard library does, which keeps numbers exact if it is asked to.
func standard(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func values(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.SampledFrom([]any{nil, true, false, json.Number("0"), json.Number("-0"), json.Number("1.0"), json.Number("12345678901234567890"), json.Number("1E+400")}),
		rapid.Map(rapid.String(), func(s string) any { return s }),
	)
	if depth == 0 {
		return scalar
	}
	below := rapid.Deferred(func() *rapid.Generator[any] { return values(depth - 1) })
	names := rapid.OneOf(rapid.SampledFrom([]string{"", "name", "Name", "\u2028", "\"", "a/b"}), rapid.String())
	return rapid.OneOf(
		scalar,
		rapid.Map(rapid.MapOfN(names, below, 0, 12), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(below, 0, 5), func(l []any) any { return append([]any{}, l...) }),
	)
}

func TestWhatIsEncodedIsDecodedAsTheStandardLibraryDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := values(4).Draw(t, "value")
		text := Append(nil, v)
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "\t"); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, text := range [][]byte{text, indented.Bytes()} {
			got, err := Decode(text)
			want, wantErr := standard(text)
			if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(got, v) {
				t.Fatalf("%s is decoded as %#v (%v); the standard library has %#v (%v)", text, got, err, want, wantErr)
			}
		}
	})
}

// The API server's own decoder says what a pod is.
func TestNamesAreTreatedAsTheAPIServerTreatsThem(t *testing.T) {
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"a":1,"A":2}`, `{"a":{"b":1},"a":{"c":2}}`, `{"a":[1],"a":null}`, `{"\u0061":1,"a":"x"}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":"\ud83d\ude00"}`,
	} {
		var want map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got, err := Decode([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := standard(Append(nil, got))
		wanted, _ := json.Marshal(want)
		same, _ := standard(wanted)
		if err != nil || !reflect.DeepEqual(again, same) {
			t.Errorf("%s is decoded as %v, and by the API server as %v", text, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"a":[1,{"b":null}],"c":"\u00e9\ud800"}`, `[1e400,-0,"\\"]`, "\"\xff\"", `{"a":1,"a":2}`, "{} {}",
		"", " ", "{", "}", `{"a"}`, `{"a":}`, `{"a":1,}`, "[1,]", "[1 2]", "01", "1 2", "nul", `"a`, `{"a":1}x`, "+1", "NaN", strings.Repeat("[", 20_000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Decode([]byte(text))
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var want any
		wantErr := d.Decode(&want)
		if wantErr == nil && strings.TrimLeft(text[d.InputOffset():], " \t\r\n") != "" {
			return // something follows
		}
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is decoded as %#v (%v); the standard library has %#v (%v)", text, got, err, want, wantErr)
		}
		if err == nil {
			if again, err := standard(Append(nil, got)); err != nil || !reflect.DeepEqual(again, got) {
				t.Fatalf("%q is encoded as %s (%v)", text, Append(nil, got), err)
			}
		}
	})
}
