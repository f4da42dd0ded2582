package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheHashCoversTheValuesThatExpressionsNameAndNoOthers(t *testing.T) {
	// Each value but those below "free" is 1 in one set of values and 2 in the other.
	values := func(n int) map[string]any {
		return map[string]any{
			"a": n, "odd key": n, "b": map[string]any{"c": n, "d": n, "e": map[string]any{"f": n}}, "list": []any{n, map[string]any{"x": n}},
			"defaults": map[string]any{"other": map[string]any{"p": n}}, "free": map[string]any{"key": "a", "low": "c"},
		}
	}
	all := []string{"a", "odd key", "b.c", "b.d", "b.e.f", "list", "defaults"}
	for expression, named := range map[string][]string{
		`'x'`:                                                nil,
		`string(values.a)`:                                   {"a"},
		`string(values['odd key'])`:                          {"odd key"},
		`string(values.b.c)`:                                 {"b.c"},
		`string(values.b['c'])`:                              {"b.c"},
		`toJson(values.b.e)`:                                 {"b.e.f"},
		`toJson(values.b)`:                                   {"b.c", "b.d", "b.e.f"},
		`has(values.b.c) ? 'x' : 'y'`:                        {"b.c"},
		`string(values.?b.?d.orValue(0))`:                    {"b.d"},
		`string(values.?zz.orValue(0))`:                      nil,
		`string('c' in values.b)`:                            {"b.c"},
		`string(values.b.exists(k, k == 'c'))`:               {"b.c", "b.d", "b.e.f"},
		`string(values.list[1].x)`:                           {"list"},
		`string(values.b[values.free.low])`:                  {"b.c", "b.d", "b.e.f"},
		`string(values[values.free.key])`:                    all,
		`toJson(values)`:                                     all,
		`string('a' in values)`:                              {"a"},
		`string([values].size())`:                            all,
		`string(values.a) + variables.v`:                     {"a", "b.d"},
		`string(pod.spec.containers.all(c, values.b.c > 0))`: {"b.c"},
	} {
		spec := `
variables: [{name: v, expression: "string(values.b.d)"}]
inject: {metadata: {annotations: {x: ` + fmt.Sprintf("%q", "${"+expression+"}") + `}}}`
		if !strings.Contains(expression, "variables.v") {
			spec = strings.Replace(spec, "values.b.d", "1", 1)
		}
		hash := func(values map[string]any) string {
			return compiledWith(t, manifestOf(spec), Options{Values: values}).Hash()
		}
		base := hash(values(1))
		for _, one := range all {
			changed := values(1)
			changed = put(changed, strings.Split(one, "."), at(values(2), strings.Split(one, ".")))
			if differs := hash(changed) != base; differs != slices.Contains(named, one) {
				t.Errorf("%s: another %s: another hash %t", expression, one, differs)
			}
		}
		more := values(1)
		more["new"] = 1
		if differs := hash(more) != base; differs != (len(named) == len(all)) {
			t.Errorf("%s: one more value: another hash %t", expression, differs)
		}
	}
}

// Whatever the values are: one that no expression names changes no hash, and one that an
// expression names does.
func TestOnlyNamedValuesChangeTheHash(t *testing.T) {
	names := []string{"a", "b", "c"}
	var tree func(depth int) *rapid.Generator[any]
	tree = func(depth int) *rapid.Generator[any] {
		leaf := rapid.SampledFrom([]any{"x", "y", 1, true, nil, []any{1}})
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf, rapid.Map(rapid.MapOf(rapid.SampledFrom(names), tree(depth-1)), func(m map[string]any) any { return m }))
	}
	way := rapid.SliceOfN(rapid.SampledFrom(names), 1, 3)
	rapid.Check(t, func(rt *rapid.T) {
		read, written := way.Draw(rt, "read"), way.Draw(rt, "written")
		before := rapid.MapOf(rapid.SampledFrom(names), tree(2)).Draw(rt, "values")
		after := put(before, written, tree(1).Draw(rt, "value"))
		spec := "variables: [{name: v, expression: values." + strings.Join(read, ".") + "}]\ninject: {metadata: {labels: {a: b}}}"
		hash := func(values map[string]any) string {
			return compiledWith(t, manifestOf(spec), Options{Values: values}).Hash()
		}
		if same := jsonOf(rt, at(before, read)) == jsonOf(rt, at(after, read)); same != (hash(before) == hash(after)) {
			rt.Fatalf("values.%s is the same %t, the hash %t: %v, %v", strings.Join(read, "."), same, !same, before, after)
		}
		if read[0] != written[0] && hash(before) != hash(after) {
			rt.Fatalf("another values.%s and another hash: %v, %v", strings.Join(written, "."), before, after)
		}
	})
}

func jsonOf(t *rapid.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// at returns the value at the fields. Where the fields end early, it is the value there and how
// deep that is, and "absent" in an object.
func at(v any, fields []string) any {
	for depth, f := range fields {
		object, ok := v.(map[string]any)
		if !ok {
			return []any{"ends at", depth, v}
		}
		if v, ok = object[f]; !ok {
			return "absent"
		}
	}
	return v
}

// put returns the values with another one at the fields.
func put(values map[string]any, fields []string, v any) map[string]any {
	changed := maps.Clone(values)
	if changed == nil {
		changed = map[string]any{}
	}
	if len(fields) > 1 {
		below, _ := changed[fields[0]].(map[string]any)
		v = put(below, fields[1:], v)
	}
	changed[fields[0]] = v
	return changed
}
