package templates

import (
	"fmt"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// validation is a compiled validation. Message is nil without a messageExpression.
type validation struct {
	declared       v1alpha1.Validation
	holds, message *expression.Expression
}

// Invalid is a validation that is false for a pod.
type Invalid struct {
	// Name is the validation's.
	Name string
	// Message is for the person who creates the pod.
	Message string
}

// invalid evaluates the validations, and returns the false ones.
func (t *Template) invalid(s *expression.Scope) ([]Invalid, error) {
	var all []Invalid
	for _, v := range t.validations {
		holds, err := v.holds.Condition(s)
		if err != nil {
			return nil, err
		}
		if !holds {
			all = append(all, Invalid{Name: v.declared.Name, Message: v.text(s)})
		}
	}
	return all, nil
}

// text returns the message of a false validation. It ignores a messageExpression that fails, for example
// because of an absent field.
func (v validation) text(s *expression.Scope) string {
	if v.message != nil {
		if text, err := v.message.Text(s); err == nil && text != "" {
			return text
		}
	}
	if v.declared.Message != "" {
		return v.declared.Message
	}
	return fmt.Sprintf("its validation %q is false for this pod: %s", v.declared.Name, v.declared.Expression)
}
