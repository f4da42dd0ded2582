package reason

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A decision leaves the webhook as text: the API server passes on only warnings and the status of a refusal.
// This file alone writes and reads these formats.

// Warning returns the text of a warning: the code, a colon and the sentence.
func (c Code) Warning(sentence string) string { return string(c) + ": " + sentence }

// OfWarning returns the code of a warning that [Code.Warning] wrote. It reports false for any other warning.
func OfWarning(text string) (Code, bool) {
	before, _, found := strings.Cut(text, ": ")
	return known(before, found)
}

// causePrefix is the beginning of a cause's type, which is qualified because other webhooks put their own
// causes into a status.
const causePrefix = "pillion.dev/"

// Refusal returns the status of a refusal. It has the message for people, and the code as the type of its first
// cause.
func (c Code) Refusal(message string) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(causePrefix + string(c)), Message: c.Sentence()}}},
	}
}

// OfRefusal returns the code of a refusal that [Code.Refusal] wrote, from the error of a client of the API
// server. It reports false for any other error.
func OfRefusal(err error) (Code, bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Details == nil {
		return "", false
	}
	for _, cause := range answer.Status().Details.Causes {
		name, found := strings.CutPrefix(string(cause.Type), causePrefix)
		if code, ok := known(name, found); ok {
			return code, true
		}
	}
	return "", false
}

// known returns the code of a name, if there is such a code.
func known(name string, found bool) (Code, bool) {
	_, ok := table[Code(name)]
	if !found || !ok {
		return "", false
	}
	return Code(name), true
}
