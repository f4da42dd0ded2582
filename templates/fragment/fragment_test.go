package fragment_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// placed returns the names of a list of volumes into which items are put, and those whose anchor is nowhere.
func placed(t testing.TB, list, items string, front int) (all, stray string) {
	t.Helper()
	n := fragmenttest.Parse(t, "spec: {volumes: ["+items+"]}").Field("spec", "volumes")
	id, _ := n.Type.Identity()
	var have []any
	for name := range strings.FieldsSeq(list) {
		have = append(have, map[string]any{"name": name})
	}
	before := slices.Clone(have)
	got, left := fragment.Insert(id, have, front, n.Items)
	if !reflect.DeepEqual(have, before) {
		t.Error("the list was changed")
	}
	var names, strays []string
	for _, item := range got {
		names = append(names, item.(map[string]any)["name"].(string))
	}
	for _, it := range left {
		strays = append(strays, strings.TrimPrefix(it.Key, "name="))
	}
	return strings.Join(names, " "), strings.Join(strays, " ")
}

func TestAnItemIsPlacedWhenItComes(t *testing.T) {
	for _, c := range []struct {
		list, items string
		front       int
		want, stray string
	}{
		{"x q", "{name: a}, {name: b}", 0, "x q a b", ""},
		{"x q", "{name: a, $position: Last}, {name: b}", 0, "x q a b", ""},
		{"x q", "{name: a, $position: First}, {name: b, $position: First}", 0, "a b x q", ""},
		{"x q", "{name: a, $position: First}, {name: b, $position: First}", 1, "x a b q", ""},
		{"x q", "{name: a, $position: {before: q}}, {name: b, $position: {before: q}}", 0, "x a b q", ""},
		{"x q", "{name: a, $position: {after: x}}, {name: b, $position: {after: x}}", 0, "x a b q", ""},
		{"x q", "{name: a, $position: {after: b}}, {name: b}", 0, "x q b a", ""},
		{"x q", "{name: a, $position: {after: b}}, {name: b, $position: {before: c}}, {name: c, $position: First}", 0, "b a c x q", ""},
		{"x q", "{name: a, $position: {before: b}}, {name: b, $position: {before: a}}, {name: c}", 0, "x q c b a", "a"},
		{"x q", "{name: a, $position: {before: gone}}, {name: b}", 0, "x q b a", "a"},
		{"x q", "{name: a, $position: {before: a}}", 0, "x q a", "a"},
		{"", "{name: a, $position: {after: b}}, {name: b}", 0, "b a", ""},
		{"x x", "{name: a, $position: {after: x}}", 0, "x x a", ""},
		{"x q", "{name: a, $patch: delete, $position: First}, {name: b, $position: {after: a}}", 0, "x q b", "b"},
	} {
		if got, stray := placed(t, c.list, c.items, c.front); got != c.want || stray != c.stray {
			t.Errorf("%s into %s: %s, stray %q; want %s, %q", c.items, c.list, got, stray, c.want, c.stray)
		}
	}
	// An expression may give no anchor at all.
	n := fragmenttest.Parse(t, "spec: {volumes: [{name: a, $position: {before: z}}, {name: b, $position: {after: z}}]}").Field("spec", "volumes")
	id, _ := n.Type.Identity()
	n.Items[0].Position.Anchor, n.Items[1].Position.Anchor = "", ""
	all, stray := fragment.Insert(id, []any{map[string]any{"name": "x"}}, 0, n.Items)
	if got := string(podschema.Encode(all)); got != `[{"name":"a"},{"name":"x"},{"name":"b"}]` || len(stray) > 0 {
		t.Errorf("without an anchor: %s, stray %v", got, stray)
	}
}

// Whatever items ask for, each is there once, all that was there stays in its order, and those with an anchor
// stand on the side that they ask for.
func TestNoItemIsLostByItsPosition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := "x q z"
		var items, names []string
		position := map[string][2]string{}
		for i := range rapid.IntRange(0, 6).Draw(rt, "items") {
			name := fmt.Sprint("n", i)
			anchor := rapid.SampledFrom([]string{"x", "q", "z", "n0", "n1", "n2", "n3", "n4", "n5"}).Draw(rt, "anchor")
			side := rapid.SampledFrom([]string{"", "First", "Last", "before", "after"}).Draw(rt, "side")
			names = append(names, name)
			switch side {
			case "":
				items = append(items, "{name: "+name+"}")
			case "First", "Last":
				items = append(items, "{name: "+name+", $position: "+side+"}")
			default:
				position[name] = [2]string{side, anchor}
				items = append(items, "{name: "+name+", $position: {"+side+": "+anchor+"}}")
			}
		}
		got, stray := placed(t, list, strings.Join(items, ", "), 0)
		all := strings.Fields(got)
		if len(all) != 3+len(names) || !strings.Contains(strings.Join(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s[0] == 'n' }), " "), list) {
			rt.Fatalf("%s: %s", items, got)
		}
		for name, p := range position {
			at, anchor := slices.Index(all, name), slices.Index(all, p[1])
			if anchor >= 0 && !slices.Contains(strings.Fields(stray), name) && (p[0] == "before") != (at < anchor) {
				rt.Fatalf("%s: %s is on the wrong side of %s in %s", items, name, p[1], got)
			}
		}
	})
}
