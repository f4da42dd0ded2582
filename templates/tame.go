package templates

import (
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// tame reports whether no value of the parameter can mean anything to a shell.
func tame(d v1alpha1.Parameter) bool {
	kind, constraints := d.Type, d.Constraints
	if d.Items != nil {
		kind, constraints = d.Items.Type, d.Items.Constraints
	}
	switch kind {
	case v1alpha1.String:
		return len(constraints.Enum) > 0 || constraints.Pattern != "" && tamePattern(constraints.Pattern)
	case v1alpha1.JSON:
		return false
	}
	return true
}

// tamePattern reports whether all that a pattern matches is made of characters that
// mean nothing to a shell.
func tamePattern(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil && tameRegexp(re)
}

func tameRegexp(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return false
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if !isTame(r) {
				return false
			}
		}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i+1] > 'z' {
				return false
			}
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if !isTame(r) {
					return false
				}
			}
		}
	}
	return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !tameRegexp(sub) })
}

func isTame(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
}
