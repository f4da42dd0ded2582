package templates

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/decls"
)

// VisibleNames are what expressions see.
func VisibleNames() []string { return visibleNames }

// Functions are what expressions may call, by name, without operators.
func Functions() []*decls.FunctionDecl {
	var all []*decls.FunctionDecl
	for _, name := range functionNames() {
		all = append(all, baseEnvironment().Functions()[name])
	}
	slices.SortFunc(all, func(a, b *decls.FunctionDecl) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// Macros are the names of CEL's macros.
func Macros() []string {
	var names []string
	for _, m := range baseEnvironment().Macros() {
		if !slices.Contains(names, m.Function()) {
			names = append(names, m.Function())
		}
	}
	slices.Sort(names)
	return names
}
