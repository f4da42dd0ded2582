package reason_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/pillion-dev/pillion/injector/reason"
)

func TestEveryCodeIsReadFromTheWarningItIsWrittenInto(t *testing.T) {
	for _, code := range reason.Codes() {
		if got, ok := reason.OfWarning(code.Warning("without side: it: says so")); got != code || !ok {
			t.Errorf("%s: got %q, %v", code, got, ok)
		}
	}
}

func TestAWarningOfAnotherWebhookHasNoCode(t *testing.T) {
	for _, text := range []string{
		"", "Suspended", "Suspended:", "suspended: x", "a Suspended: x", "Unknown: x",
		`would violate PodSecurity "restricted:latest": x`, "template side: the pod's value is used, not the template's",
	} {
		if code, ok := reason.OfWarning(text); ok {
			t.Errorf("%q has the code %s", text, code)
		}
	}
}

// The API server wraps a webhook's status in an error of its own.
func TestEveryCodeIsReadFromTheRefusalAsTheAPIServerPassesItOn(t *testing.T) {
	for _, code := range reason.Codes() {
		err := fmt.Errorf("creating the pod: %w", webhookerrors.ToStatusErr("requested.pillion.dev", code.Refusal("the sentence")))
		if got, ok := reason.OfRefusal(err); got != code || !ok {
			t.Errorf("%s: got %q, %v", code, got, ok)
		}
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: the API server's answer is not Forbidden: %v", code, err)
		}
	}
}

func TestARefusalOfAnotherWebhookHasNoCode(t *testing.T) {
	caused := func(kind metav1.CauseType) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: kind, Message: "Conflict"}}}}}
	}
	for _, err := range []error{
		nil, errors.New("denied the request: x (Conflict)"), apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("Conflict")),
		&apierrors.StatusError{}, caused("Conflict"), caused("pillion.dev/Unheard"), caused("example.com/Conflict"),
	} {
		if code, ok := reason.OfRefusal(err); ok {
			t.Errorf("%v has the code %s", err, code)
		}
	}
}
