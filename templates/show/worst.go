package show

import (
	"cmp"
	"maps"
	"slices"
)

// Worst returns the names with the largest counts, at most so many, and the sum of the other counts. Equal
// counts are ordered by name.
func Worst(counts map[string]int, most int) (worst []string, rest int) {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	worst = names[:min(most, len(names))]
	for _, name := range names[len(worst):] {
		rest += counts[name]
	}
	return worst, rest
}
