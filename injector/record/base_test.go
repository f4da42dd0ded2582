package record

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRemovedItemsGoBackOneAfterTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := make([]any, rapid.IntRange(0, 6).Draw(t, "items"))
		for i := range items {
			items[i] = i
		}
		var removed []Removed
		for i, at := range rapid.SliceOfN(rapid.IntRange(-1, 9), 0, 6).Draw(t, "indexes") {
			removed = append(removed, Removed{At: at, Value: 100 + i})
		}
		slices.SortStableFunc(removed, func(a, b Removed) int { return cmp.Compare(a.At, b.At) })
		want := slices.Clone(items)
		for _, r := range removed {
			want = slices.Insert(want, min(max(r.At, 0), len(want)), r.Value)
		}
		if got := insertAll(items, removed); !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}
