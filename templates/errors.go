package templates

import (
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/param"
)

// Problem is one mistake in a manifest.
type Problem struct {
	// Path is the path of the mistake, such as spec.inject.spec.containers[0].image. Empty for the manifest as
	// a whole.
	Path string
	// Line is its line in the file, from 1. It is 0 if unknown, as for objects of the cluster.
	Line int
	// Message describes the mistake and the allowed values.
	Message string
}

// CompileError has all mistakes of a manifest that cannot be used, in the order of the file's lines.
type CompileError struct {
	// Source is [Options.Source].
	Source string
	// Template is the name in the manifest, empty if it has none.
	Template string
	// Scope is the kind of the manifest.
	Scope Scope
	// Problems has at least one problem.
	Problems []Problem
	// Broken has the selectors of the template as far as its spec could be read, or is nil. With it, pods that
	// want the template are refused and do not silently go without it. It has no match if a part of spec.match
	// cannot be read: the rest would select more pods than the author meant, often all of the cluster.
	Broken *Template
}

// Error returns one line for each problem:
// SOURCE:LINE: template NAME: PATH: MESSAGE.
func (e *CompileError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = located(e.Source, e.Template, p.Path, p.Line, p.Message)
	}
	return strings.Join(lines, "\n")
}

// Warning is a part of a manifest that is allowed but probably a mistake.
type Warning struct {
	// Source and Template are as in [CompileError].
	Source, Template string
	// Path, Line and Message are as in [Problem].
	Path    string
	Line    int
	Message string
}

// String returns the warning in the form of [CompileError.Error].
func (w Warning) String() string {
	return located(w.Source, w.Template, w.Path, w.Line, w.Message)
}

func located(source, template, at string, line int, message string) string {
	var b strings.Builder
	if source != "" {
		b.WriteString(source)
		if line > 0 {
			b.WriteString(":" + strconv.Itoa(line))
		}
		b.WriteString(": ")
	}
	if template != "" {
		b.WriteString("template " + template + ": ")
	}
	if at != "" {
		b.WriteString(at + ": ")
	}
	b.WriteString(message)
	return b.String()
}

// RenderError means that an expression fails for a pod, that its value does not fit the pod's schema, or that
// rendering exceeds a bound.
type RenderError struct {
	Template string
	// Path and Line are those of the expression in the manifest, as in [Problem]. Empty for the fragment as a
	// whole.
	Path string
	Line int
	// Message describes the failure, or names the bound, without control characters.
	Message string
	// TooExpensive is set for a bound of templates/expression.
	TooExpensive bool
}

// Error returns the template, the path and the failure.
func (e *RenderError) Error() string {
	return located("", e.Template, e.Path, 0, e.Message)
}

// ErrNoExample is wrapped by the error of [Template.RenderExample] for a template with a required parameter
// that has no value. Compile warns of it.
var ErrNoExample = param.ErrNoExample
