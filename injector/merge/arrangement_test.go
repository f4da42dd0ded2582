package merge

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// slowOrder says what an order means, at the cost of the square of its wishes: it
// knows for each two items whether one stands before the other, and puts in one item
// after the other.
type slowOrder struct {
	wishes []wish
	before map[string]map[string]bool // before[x][y]: x stands before y, directly or not
}

// add reports false for a wish that would close a cycle.
func (o *slowOrder) add(w wish) bool {
	from, to := w.edge()
	if from == to || o.before[to][from] {
		return false
	}
	o.wishes = append(o.wishes, w)
	if o.before == nil {
		o.before = map[string]map[string]bool{}
	}
	earlier, later := []string{from}, []string{to}
	for x, behind := range o.before {
		if behind[from] {
			earlier = append(earlier, x)
		}
	}
	for y := range o.before[to] {
		later = append(later, y)
	}
	for _, x := range earlier {
		if o.before[x] == nil {
			o.before[x] = map[string]bool{}
		}
		for _, y := range later {
			o.before[x][y] = true
		}
	}
	return true
}

func (o *slowOrder) own(key string) (wish, bool) {
	i := slices.IndexFunc(o.wishes, func(w wish) bool { return w.item == key })
	if i < 0 {
		return wish{}, false
	}
	return o.wishes[i], true
}

// index returns where in items an item goes that is not among them.
func (o *slowOrder) index(items []string, it listItem, front int) int {
	low, high, at := 0, len(items), -1
	own, anchored := o.own(it.key)
	for i, key := range items {
		switch {
		case o.before[key][it.key]:
			low = max(low, i+1)
		case o.before[it.key][key]:
			high = min(high, i)
		}
		if anchored && key == own.anchor && at < 0 {
			at = i
		}
	}
	want := len(items)
	switch {
	case at >= 0 && !own.after:
		want = at
	case at >= 0:
		want = at + 1
		for want < len(items) {
			if w, ok := o.own(items[want]); !ok || !w.after || w.anchor != own.anchor {
				break
			}
			want++
		}
	case it.first():
		want = front
	}
	if low > high {
		return want // the pod's own items stand otherwise
	}
	return min(max(want, low), high)
}

var letters = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}

func drawWishes(t *rapid.T) []wish {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wish {
		return wish{
			template: "t", item: "name=" + rapid.SampledFrom(letters).Draw(t, "item"),
			anchor: "name=" + rapid.SampledFrom(letters).Draw(t, "anchor"), after: rapid.Bool().Draw(t, "after"),
		}
	}), 0, 12).Draw(t, "wishes")
}

func itemOf(name string, first bool) listItem {
	n := &node{says: &directive.Directives{}, value: map[string]any{"name": name}}
	if first {
		n.says.Position.Kind = directive.First
	}
	return listItem{key: "name=" + name, node: n}
}

func drawItems(t *rapid.T, without []string) []listItem {
	var items []listItem
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(append(letters, "x", "y")), rapid.ID).Draw(t, "items") {
		if !slices.Contains(without, name) {
			items = append(items, itemOf(name, rapid.Bool().Draw(t, "first "+name)))
		}
	}
	return items
}

func names(items []any) []string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = "name=" + objectOf(item)["name"].(string)
	}
	return all
}

var named = podschema.Identity{Keys: []podschema.Key{{Name: "name"}}}

func TestTheArrangementIsThatOfTheSlowOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slow, fast := &slowOrder{}, &order{}
		for _, w := range drawWishes(t) {
			if closes := !slow.add(w); closes != (fast.add(w) != nil) {
				t.Fatalf("%v closes a cycle: %t", w, closes)
			}
		}
		// The pod's own items, some of them twice, of which some stand in front.
		old := rapid.SliceOf(rapid.SampledFrom(append(letters, "x", "y", "z"))).Draw(t, "old")
		front := rapid.IntRange(0, len(old)).Draw(t, "front")
		var items []any
		for _, name := range old {
			items = append(items, map[string]any{"name": name})
		}
		want, at := names(items), front
		added := drawItems(t, old)
		a := fast.arrangement(named, items, added, front, len(items))
		for _, it := range added {
			i := slow.index(want, it, at)
			want = slices.Insert(want, i, it.key)
			switch {
			case it.first():
				at = i + 1
			case i < at:
				at++
			}
			a.putInOld(it)
			if n := rapid.IntRange(0, 3*len(letters)).Draw(t, "passed"); n < len(want) {
				// An item that a template put there earlier. The last one of a key counts.
				if i := lastIndex(want, want[n]); i >= at && slices.ContainsFunc(added, func(it listItem) bool { return it.key == want[n] }) {
					at = i + 1
				}
				if slices.ContainsFunc(added, func(it listItem) bool { return it.key == want[n] }) {
					a.passed(want[n])
				}
			}
		}
		got, gotAt := a.result()
		if !slices.Equal(names(got), want) || gotAt != at {
			t.Fatalf("got  %v, %d in front\nwant %v, %d", names(got), gotAt, want, at)
		}
	})
}

func lastIndex(items []string, key string) int {
	return len(items) - 1 - slices.Index(slices.Collect(func(yield func(string) bool) {
		for _, s := range slices.Backward(items) {
			if !yield(s) {
				return
			}
		}
	}), key)
}

func TestANewListIsArrangedAsTheSlowOrderDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slow, fast := &slowOrder{}, &order{}
		for _, w := range drawWishes(t) {
			if slow.add(w) {
				_ = fast.add(w)
			}
		}
		if len(fast.wishes) == 0 {
			t.Skip()
		}
		items := drawItems(t, nil)
		var want []string
		at := 0
		for _, it := range items {
			i := slow.index(want, it, at)
			want = slices.Insert(want, i, it.key)
			if it.first() || i < at {
				at++
			}
		}
		got, gotAt := fast.arrange(named, items)
		if !slices.Equal(names(got), want) || gotAt != at {
			t.Fatalf("got  %v, %d in front\nwant %v, %d", names(got), gotAt, want, at)
		}
	})
}

// The slow order would take minutes for so many wishes.
func TestAnOrderOfManyWishesComesToAnEnd(t *testing.T) {
	const n = 20_000
	key := func(i int) string { return fmt.Sprintf("name=i%d", i) }
	for name, w := range map[string]func(i int) (wish, bool){
		"a chain":              func(i int) (wish, bool) { return wish{item: key(i), anchor: key(i - 1), after: true}, i > 0 },
		"a chain from behind":  func(i int) (wish, bool) { return wish{item: key(i), anchor: key(i + 1), after: true}, i < n-1 },
		"a chain before":       func(i int) (wish, bool) { return wish{item: key(i), anchor: key(i - 1)}, i > 0 },
		"all after the first":  func(i int) (wish, bool) { return wish{item: key(i), anchor: key(0), after: true}, i > 0 },
		"all before the first": func(i int) (wish, bool) { return wish{item: key(i), anchor: key(0)}, i > 0 },
		"all after the last":   func(i int) (wish, bool) { return wish{item: key(i), anchor: key(n - 1), after: true}, i < n-1 },
		"all before the last":  func(i int) (wish, bool) { return wish{item: key(i), anchor: key(n - 1)}, i < n-1 },
		"pairs":                func(i int) (wish, bool) { return wish{item: key(i), anchor: key(i - 1), after: true}, i%2 == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := &order{}
			items := make([]listItem, n)
			for i := range n {
				items[i] = itemOf(key(i)[len("name="):], false)
				if w, ok := w(i); ok {
					if err := o.add(w); err != nil {
						t.Fatal(err)
					}
				}
			}
			arranged, _ := o.arrange(named, items)
			at := podschema.IndexIn(named, arranged, o.members)
			for _, w := range o.wishes {
				if from, to := w.edge(); at[from] >= at[to] {
					t.Fatalf("%v", w)
				}
			}
		})
	}
}
