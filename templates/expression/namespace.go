package expression

import (
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// NamespaceKeys are the keys of labels and annotations of a namespace that expressions spell
// out. Whole reports that an expression reads more than such keys and the namespace's name: it
// goes over all labels, or makes the key as it runs.
type NamespaceKeys struct {
	Labels, Annotations []string
	Whole               bool
}

// note adds what an expression reads. A name that a macro binds anew counts for the
// namespace, too.
func (k *NamespaceKeys) note(x celast.Expr) {
	if key, of := membership(x); of != nil && k.add(append(fieldsOf(of), key)) {
		return
	}
	root, steps := chain(x)
	if root.Kind() != celast.IdentKind || root.AsIdent() != namespaceName {
		for _, child := range childrenOf(x) {
			k.note(child)
		}
		return
	}
	if !k.add(fieldsOf(steps)) {
		k.Whole = true
	}
	for _, s := range steps { // the keys of later steps may read something themselves
		if _, _, index := step(s); index != nil {
			k.note(index)
		}
	}
}

// add notes the way to a key, from the namespace on. It reports false if the way is not known,
// or ends before a key.
func (k *NamespaceKeys) add(way []string) bool {
	switch {
	case len(way) < 2 || way[0] != "metadata":
		return false
	case way[1] == "name":
		return true
	case len(way) < 3 || way[2] == "":
		return false
	case way[1] == "labels":
		k.Labels = append(k.Labels, way[2])
	case way[1] == "annotations":
		k.Annotations = append(k.Annotations, way[2])
	default:
		return false
	}
	return true
}

// membership returns the parts of "key in namespaceObject.metadata.labels": the key, and the
// steps from the namespace on.
func membership(x celast.Expr) (key string, of []celast.Expr) {
	if x.Kind() != celast.CallKind || x.AsCall().FunctionName() != operators.In {
		return "", nil
	}
	args := x.AsCall().Args()
	if args[0].Kind() != celast.LiteralKind {
		return "", nil
	}
	key, ok := args[0].AsLiteral().Value().(string)
	root, steps := chain(args[1])
	if !ok || root.Kind() != celast.IdentKind || root.AsIdent() != namespaceName || len(steps) != 2 {
		return "", nil
	}
	return key, steps
}

// fieldsOf returns the fields and the keys that steps lead to, "" for one that is not spelled
// out.
func fieldsOf(steps []celast.Expr) []string {
	fields := make([]string, len(steps))
	for i, s := range steps {
		_, field, index := step(s)
		if index != nil && index.Kind() == celast.LiteralKind {
			field, _ = index.AsLiteral().Value().(string)
		}
		fields[i] = field
	}
	return fields
}
