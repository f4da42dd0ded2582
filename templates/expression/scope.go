package expression

import (
	"reflect"

	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// Scope has the names that an expression sees: those of the run, and those that the surrounding $each and $for
// bind. It implements [interpreter.Activation].
type Scope struct {
	run   *Run
	up    *Scope
	name  string
	value ref.Val
	// variables are set in the scope of a container if a variable reads container.
	variables ref.Val
}

// Scope returns the scope of an expression outside of all $each and $for.
func (r *Run) Scope() *Scope { return &Scope{run: r} }

// Container returns the scope in an item with $each, for one container of the pod.
func (s *Scope) Container(container map[string]any) *Scope {
	below := s.bind(eachName, adapt(container))
	below.variables = s.run.variablesFor(below, reflect.ValueOf(container).Pointer())
	return below
}

func (s *Scope) bind(name string, value ref.Val) *Scope {
	return &Scope{run: s.run, up: s, name: name, value: value}
}

// ResolveName implements [interpreter.Activation].
func (s *Scope) ResolveName(name string) (any, bool) {
	for b := s; b != nil; b = b.up {
		if b.value != nil && b.name == name {
			return b.value, true
		}
		if b.variables != nil && name == variablesName {
			return b.variables, true
		}
	}
	r := s.run
	switch name {
	case podName:
		return r.pod, true
	case namespaceName:
		return r.namespace, true
	case paramsName:
		return r.params, true
	case variablesName:
		return r.variables, true
	case valuesName:
		return r.names.values, true
	}
	return nil, false
}

// Parent implements [interpreter.Activation].
func (s *Scope) Parent() interpreter.Activation { return nil }
