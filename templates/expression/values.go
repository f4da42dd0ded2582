package expression

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
)

// ValueReads are the installer's values that expressions spell out, each by its fields. Whole
// reports that an expression reads all of them: it uses values as such, or makes the first
// field as it runs.
type ValueReads struct {
	Fields [][]string
	Whole  bool
}

// note adds what an expression reads. A name that a macro binds anew counts for the values,
// too.
func (r *ValueReads) note(x celast.Expr) {
	root, steps := chain(x)
	if root.Kind() != celast.IdentKind || root.AsIdent() != valuesName {
		for _, child := range childrenOf(x) {
			r.note(child)
		}
		return
	}
	fields := fieldsOf(steps)
	if i := slices.Index(fields, ""); i >= 0 {
		fields = fields[:i] // all that is below counts
	}
	if len(fields) == 0 {
		r.Whole = true
	} else {
		r.Fields = append(r.Fields, fields)
	}
	for _, s := range steps { // the keys of steps may read something themselves
		if _, _, index := step(s); index != nil {
			r.note(index)
		}
	}
}
