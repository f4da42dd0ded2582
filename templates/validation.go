package templates

import (
	"fmt"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// validation is a compiled one. Message is nil without a messageExpression.
type validation struct {
	declared       v1alpha1.Validation
	holds, message *expression.Expression
}

// Invalid says that a validation of a template is false for a pod.
type Invalid struct {
	// Name is the validation's.
	Name string
	// Message is for the person who creates the pod.
	Message string
}

// invalid evaluates the validations, and returns those that are false.
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

// text returns the message of a validation that is false. A messageExpression that
// fails, as one about a field that the pod does not have, does not hide the refusal.
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
