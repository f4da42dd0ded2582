package param

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// The bounds on the regular expressions of a template of a namespace. RE2 takes time in proportion to the text
// times the instructions of the compiled expression, and `(.{0,99}){9}` has a thousand of them.
const (
	maxPatterns     = 10
	maxPatternBytes = 256
	maxInstructions = 250
	// maxPatternInput bounds the bytes of the annotations of all parameters with a pattern.
	maxPatternInput = 4 << 10
)

// Patterns counts the regular expressions of one template. Those of a template of the cluster have no bounds.
type Patterns struct {
	Namespaced bool
	count      int
}

// Pattern is a compiled regular expression.
type Pattern struct {
	*regexp.Regexp
	// Instructions is the number of steps to match one byte.
	Instructions int
}

// Compile compiles a regular expression. It returns an error if it exceeds the template's bounds.
func (p *Patterns) Compile(text string) (Pattern, error) {
	if p.count++; p.Namespaced && p.count > maxPatterns {
		return Pattern{}, fmt.Errorf(tooManyPatterns, maxPatterns)
	}
	if p.Namespaced && len(text) > maxPatternBytes {
		return Pattern{}, fmt.Errorf(longPattern, len(text), maxPatternBytes)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return Pattern{}, fmt.Errorf(noRegularExpression, err)
	}
	parsed, _ := syntax.Parse(text, syntax.Perl) // regexp.Compile has parsed and compiled it, too
	program, _ := syntax.Compile(parsed.Simplify())
	if n := len(program.Inst); p.Namespaced && n > maxInstructions {
		return Pattern{}, fmt.Errorf(expensivePattern, n, maxInstructions)
	}
	return Pattern{compiled, len(program.Inst)}, nil
}
