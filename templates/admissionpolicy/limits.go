package admissionpolicy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

const (
	// mostExpression is how many characters an API server takes of an expression.
	// Source: expressionSizeCodePointLimit in github.com/google/cel-go/parser.
	mostExpression = 100_000
	// mostBytes is how large a policy may be: etcd takes 1.5 MiB, with what API servers add.
	// Source: DefaultMaxRequestBytes in go.etcd.io/etcd/server/v3/embed.
	mostBytes = 1_500_000
	// mostApplied is how large a policy may be for kubectl apply, which keeps a copy of it in an annotation.
	// Source: TotalAnnotationSizeLimitB in k8s.io/apimachinery/pkg/api/validation.
	mostApplied = 256 << 10
)

const less = "; have fewer containers, images or exceptions in the template, or select by fewer values"

// withinLimits returns an error for a policy that API servers refuse for its size.
func withinLimits(p *admissionv1.ValidatingAdmissionPolicy) error {
	expressions := map[string]string{}
	for _, c := range p.Spec.MatchConditions {
		expressions["the matchCondition "+c.Name] = c.Expression
	}
	for _, v := range p.Spec.Variables {
		expressions["the expression variables."+v.Name] = v.Expression
	}
	for i, v := range p.Spec.Validations {
		expressions[fmt.Sprintf("the expression validations[%d]", i)] = v.Expression
	}
	for _, what := range slices.Sorted(maps.Keys(expressions)) {
		if n := utf8.RuneCountInString(expressions[what]); n > mostExpression {
			return fmt.Errorf("%s of its admission policy would have %d characters, and API servers take %d%s", what, n, mostExpression, less)
		}
	}
	if n := size(p); n > mostBytes {
		return fmt.Errorf("its admission policy would have %d bytes, and API servers store %d%s", n, mostBytes, less)
	}
	return nil
}

func size(p *admissionv1.ValidatingAdmissionPolicy) int {
	text, _ := json.Marshal(p) // of texts and numbers
	return len(text)
}
