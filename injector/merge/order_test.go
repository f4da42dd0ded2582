package merge

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

var named = podschema.Identity{Keys: []podschema.Key{{Name: "name"}}}

func itemsOf(names ...string) []any {
	items := make([]any, len(names))
	for i, name := range names {
		items[i] = map[string]any{"name": name}
	}
	return items
}

func names(items []any) []string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = objectOf(item)["name"].(string)
	}
	return all
}

func beside(item string, kind directive.Kind, anchor string) Position {
	return Position{Template: "t", Item: "name=" + item, Kind: kind, Anchor: "name=" + anchor}
}

func before(item, anchor string) Position { return beside(item, directive.Before, anchor) }
func after(item, anchor string) Position  { return beside(item, directive.After, anchor) }

func first(item string, required bool) Position {
	return Position{Template: "t", Item: "name=" + item, Kind: directive.First, Required: required}
}

func TestItemsAreArrangedAsTheirPositionsSay(t *testing.T) {
	for _, c := range []struct {
		what, own string
		// added has an item and the place of its template each, in the order of the merge.
		added     string
		positions []Position
		want      string
	}{
		{"the templates' order, whichever is merged first", "x y", "b1 c2 a0", nil, "x y a b c"},
		{"first ones in front, required ones before others", "x", "a0 b1 c2 d3", []Position{first("a", false), first("c", true), first("d", false)}, "c a d x b"},
		{"beside the pod's own", "x y", "a0 b0", []Position{before("a", "y"), after("b", "x")}, "x b a y"},
		{"several beside one, in the templates' order", "x", "d3 a0 c2 b1", []Position{before("d", "x"), after("a", "x"), after("c", "x"), before("b", "x")}, "b d x a c"},
		{"a neighbour of a neighbour stands between it and the next one", "x y", "a0 b1 c2", []Position{after("a", "x"), after("b", "x"), after("c", "a")}, "x a c b y"},
		{"a neighbour that comes later", "x", "a0 b1", []Position{before("a", "b")}, "x a b"},
		{"a neighbour that there is not", "x", "a0 b1", []Position{before("a", "z")}, "x a b"},
		{"beside the last one of a key, or in front of its first", "x y x", "a0 b1", []Position{after("a", "x"), before("b", "x")}, "b x y x a"},
		{"the first position of an item counts, others are kept", "x y z", "a0", []Position{after("a", "x"), after("a", "y")}, "x y a z"},
		{"what the pod's own order forbids", "x y", "a0", []Position{after("a", "y"), before("a", "x")}, "a x y"},
		{"each of two beside the other", "x", "a0 b0 c1", []Position{before("a", "b"), after("b", "a")}, "x a b c"},
		{"first ones stay together", "x", "a0 b1 c2 d3", []Position{first("a", false), after("b", "a"), first("c", false), before("d", "a")}, "d a c b x"},
		{"beside a first one", "x", "a0 b1", []Position{first("a", false), after("b", "a")}, "a b x"},
	} {
		o := &order{positions: c.positions}
		all := strings.Fields(c.own)
		for _, one := range strings.Fields(c.added) {
			all = append(all, one[:1])
			o.added = append(o.added, added{"name=" + one[:1], int(one[1] - '0')})
		}
		if got := strings.Join(names(o.arrange(named, itemsOf(all...))), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

var letters = strings.Split("abcdefghij", "")

func drawPositions(t *rapid.T) []Position {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Position {
		item, anchor := rapid.SampledFrom(letters).Draw(t, "item"), rapid.SampledFrom(letters).Draw(t, "anchor")
		return beside(item, rapid.SampledFrom([]directive.Kind{directive.Before, directive.After}).Draw(t, "kind"), anchor)
	}), 0, 12).Draw(t, "positions")
}

// leads has for each two items whether edges lead from one to the other.
func leads(edges [][2]string) map[[2]string]bool {
	all := map[[2]string]bool{}
	for _, e := range edges {
		all[e] = true
	}
	for more := true; more; {
		more = false
		for a := range all {
			for b := range all {
				if c := [2]string{a[0], b[1]}; a[1] == b[0] && !all[c] {
					all[c], more = true, true
				}
			}
		}
	}
	return all
}

func edgesOf(positions []Position) [][2]string {
	var edges [][2]string
	for _, p := range positions {
		from, to := p.edge()
		edges = append(edges, [2]string{from, to})
	}
	return edges
}

func hasCycle(edges [][2]string) bool {
	for e := range leads(edges) {
		if e[0] == e[1] {
			return true
		}
	}
	return false
}

func TestACycleIsFoundWhereThereIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &order{positions: drawPositions(t)}
		cycle := o.cycle()
		if has := hasCycle(edgesOf(o.positions)); has != (cycle != nil) {
			t.Fatalf("found %v, there is one: %t", cycle, has)
		}
		for i, p := range cycle {
			_, to := p.edge()
			if from, _ := cycle[(i+1)%len(cycle)].edge(); from != to {
				t.Fatalf("these do not follow each other: %v", cycle)
			}
		}
	})
}

func TestAnArrangementLosesNothingKeepsThePodsOrderAndMeetsWhatCanBeMet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &order{positions: drawPositions(t)}
		for o.cycle() != nil { // the reader refuses it
			o.positions = o.positions[1:]
		}
		all := rapid.Permutation(append(slices.Clone(letters), "x", "y")).Draw(t, "items")
		all = all[:rapid.IntRange(0, len(all)).Draw(t, "of these")]
		n := rapid.IntRange(0, len(all)).Draw(t, "the pod's own")
		own := all[:n]
		for _, name := range all[n:] {
			o.added = append(o.added, added{"name=" + name, rapid.IntRange(0, 2).Draw(t, "template")})
			if rapid.IntRange(0, 3).Draw(t, "first") == 0 {
				o.positions = append(o.positions, first(name, rapid.Bool().Draw(t, "required")))
			}
		}
		got := names(o.arrange(named, itemsOf(all...)))
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(all))) {
			t.Fatalf("%v became %v", all, got)
		}
		if kept := slices.DeleteFunc(slices.Clone(got), func(name string) bool { return !slices.Contains(own, name) }); !slices.Equal(kept, own) {
			t.Fatalf("the pod's own %v became %v", own, kept)
		}
		at := map[string]int{}
		for i, name := range got {
			at["name="+name] = i
		}
		var edges [][2]string
		for _, e := range edgesOf(slices.DeleteFunc(slices.Clone(o.positions), func(p Position) bool { return p.Kind == directive.First })) {
			_, from := at[e[0]]
			_, to := at[e[1]]
			both := slices.Contains(own, e[0][len("name="):]) && slices.Contains(own, e[1][len("name="):])
			if from && to && !both {
				edges = append(edges, e)
			}
		}
		wanted := edges
		for i := 1; i < len(own); i++ {
			edges = append(edges, [2]string{"name=" + own[i-1], "name=" + own[i]})
		}
		if hasCycle(edges) {
			return
		}
		for _, e := range wanted {
			if at[e[0]] >= at[e[1]] {
				t.Fatalf("%v: %s does not stand before %s", got, e[0], e[1])
			}
		}
	})
}
