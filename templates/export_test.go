package templates

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/decls"
)

// VisibleNames are what expressions see.
func VisibleNames() []string { return visibleNames }

// ParameterTypes are the types of parameters in their order, with what their values
// are in words.
func ParameterTypes() (names, words []string) {
	for _, name := range parameterTypes {
		names = append(names, name)
		for kind, k := range scalarKinds {
			if string(kind) == name {
				words = append(words, k.words)
			}
		}
		switch name {
		case "list":
			words = append(words, "comma separated values of the type in items; empty text is the empty list")
		case "map":
			words = append(words, "one annotation NAME.KEY for each key, its value of the type in items; gathered from namespace and pod key by key")
		}
	}
	return names, words
}

// Functions are what expressions may call, by name, without operators.
func Functions() []*decls.FunctionDecl {
	var all []*decls.FunctionDecl
	for _, name := range functionNames() {
		all = append(all, baseEnvironment().Functions()[name])
	}
	slices.SortFunc(all, func(a, b *decls.FunctionDecl) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// IsFunction tells functions from operators and from what macros expand to.
func IsFunction(name string) bool {
	first := name[0]
	return (first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z') && !strings.Contains(name, "@")
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
