package expression

import (
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/decls"
)

// VisibleNames returns the names that every expression sees.
func VisibleNames() []string { return slices.Clone(visibleNames) }

// Functions returns the functions that expressions may call, without operators, in the
// order of their names.
func Functions() []*decls.FunctionDecl {
	var all []*decls.FunctionDecl
	for _, name := range functionNames() {
		all = append(all, baseEnvironment().Functions()[name])
	}
	return all
}

// functionNames are the names of [Functions].
var functionNames = sync.OnceValue(func() []string {
	var names []string
	for name := range baseEnvironment().Functions() {
		if first := name[0]; (first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z') && !strings.Contains(name, "@") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Clip(names)
})

// Macros returns the names of CEL's macros.
func Macros() []string {
	var names []string
	for _, m := range baseEnvironment().Macros() {
		names = append(names, m.Function())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
