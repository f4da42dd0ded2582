package coverage

import (
	"cmp"
	"maps"
	"slices"
)

// largest returns the names with the largest counts, at most so many, and the sum of the other counts. Equal
// counts are ordered by name.
func largest(counts map[string]int, most int) (names []string, rest int) {
	names = slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	first := names[:min(most, len(names))]
	for _, name := range names[len(first):] {
		rest += counts[name]
	}
	return first, rest
}
