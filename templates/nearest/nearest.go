package nearest

import (
	"slices"
	"strings"
)

// Name returns the known name that is nearest to a misspelt one. It reports false if none is near.
func Name(name string, known []string) (best string, ok bool) {
	least := 1 + max(1, len(name)/3)
	for _, k := range slices.Sorted(slices.Values(known)) {
		if bare(k) == bare(name) {
			return k, true
		}
		if apart := len(name) - len(k); max(apart, -apart) >= least {
			continue // they differ in at least so many places
		}
		if d := editDistance(name, k); d < least {
			best, least = k, d
		}
	}
	return best, best != ""
}

// bare returns a name in lower case and without hyphens, so that kebab-case equals camelCase.
func bare(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "")) }

// Hint completes a message about an unknown name: with the nearest name, or with all names if none is near and
// they are few.
func Hint(name string, known []string) string {
	if n, ok := Name(name, known); ok {
		return "; did you mean " + n + "?"
	}
	if len(known) == 0 || len(known) > 24 {
		return ""
	}
	return "; there are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that lead from a to b. Long names count as far apart.
func editDistance(a, b string) int {
	const longest = 128
	if len(a) > longest || len(b) > longest {
		return longest
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
