package directive

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDirectives holds for any object in any place of a fragment: the same mistakes are
// found each time, each in a directive of the object; and what an object without a mistake
// says is read the same each time.
func FuzzDirectives(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"$if": "a", "$for": "x in y", "$each": "App"}`, `{"$each": "None"}`, `{"$position": "First"}`, `{"$position": {"before": "a"}}`, `{"$position": {"before": "a", "after": "b"}}`, `{"$position": {"after": "${x}"}}`,
		`{"$onConflict": "Deny", "value": 1}`, `{"$onConflict": 1}`, `{"$patch": "delete", "name": "a"}`, `{"$patch": "replace"}`, `{"$patch": ["replace"]}`, `{"$unset": ["a", "b"]}`, `{"$unset": "a"}`, `{"$unset": [1, ""]}`, `{"$append": ","}`, `{"name": "a", "$append": " ", "value": "x"}`, `{"$append": 1, "value": "x"}`, `{"$append": ",", "value": "x", "$onConflict": "Deny"}`, `{"$append": "${x}", "value": []}`, `{"$nope": null}`, `{"$": 1}`, `{"$patch":"replace"}`,
	} {
		for where := range uint8(64) {
			f.Add(seed, "spec/containers/env", where)
			f.Add(seed, "spec/tolerations/0", where)
			f.Add(seed, "spec/containers/a/env/b", where)
			f.Add(seed, "metadata/annotations/a", where)
		}
	}
	f.Fuzz(func(t *testing.T, text, path string, flags uint8) {
		var object map[string]any
		if len(text) > 1<<10 || len(path) > 256 || json.Unmarshal([]byte(text), &object) != nil {
			return
		}
		where := Where{Path: strings.Split(path, "/"), Item: flags&1 > 0, Keyed: flags&2 > 0, Gathered: flags&4 > 0, Whole: flags&8 > 0, Inside: flags&16 > 0, Scalar: flags&32 > 0}
		problems := Check(object, where)
		if again := Check(object, where); !reflect.DeepEqual(problems, again) {
			t.Fatalf("%v, and then %v", problems, again)
		}
		for _, p := range problems {
			if _, ok := object[p.Key]; !ok || !Is(p.Key) || p.Message == "" || utf8.RuneCountInString(p.Message) > 2000 {
				t.Fatalf("the problem %q in %s", p.Key+" "+p.Message, text)
			}
		}
		if len(problems) > 0 {
			return
		}
		says := Of(object)
		if again := Of(object); !reflect.DeepEqual(says, again) {
			t.Fatalf("%s is not read the same twice", text)
		}
		if (object[Append] != nil || object[Prepend] != nil) && Value(object) == nil {
			t.Fatalf("%s joins nothing without a problem", text)
		}
		if says.Join != nil && (says.Join.Separator == "" || object[Patch] != nil || object[OnConflict] != nil || object[Unset] != nil || object["valueFrom"] != nil) {
			t.Fatalf("%s joins a text without a problem", text)
		}
		for key := range object {
			if Is(key) && where.Inside && !(where.Gathered && says.Marker) {
				t.Fatalf("%s stands inside one value without a problem", key)
			}
		}
	})
}
