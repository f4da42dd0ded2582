package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
)

// encodeReview writes the answer in the version of the review, with the review's UID.
func encodeReview(apiVersion string, uid types.UID, r Response) ([]byte, error) {
	response, err := admissionResponse(r)
	if err != nil {
		return nil, err
	}
	response.UID = uid
	answer, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "AdmissionReview"},
		Response: response,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return answer, nil
}

func admissionResponse(r Response) (*admissionv1.AdmissionResponse, error) {
	response := &admissionv1.AdmissionResponse{Allowed: true, Warnings: boundWarnings(r.Warnings), AuditAnnotations: auditAnnotations(r)}
	switch r.verdict {
	case verdictAllowed, verdictUnchanged:
	case verdictDenied:
		response.Allowed = false
		response.Result = r.code.Refusal(boundMessage(r.lines))
	case verdictPatched:
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch.Marshal(r.patch), &kind
	default:
		return nil, errors.New("encoding the answer: the webhook has none")
	}
	return response, nil
}

// auditAnnotations returns what the API server's audit log says about a review. There
// is nothing about an object that was injected before, or that nobody asked to inject
// into, so that a second call repeats nothing.
func auditAnnotations(r Response) map[string]string {
	switch {
	case r.verdict == verdictPatched:
		return map[string]string{"decision": string(r.code), "templates": r.injected()}
	case r.verdict == verdictAllowed, r.verdict == verdictUnchanged && (r.code == reason.Injected || r.code == reason.NotRequested):
		return nil
	}
	return map[string]string{"decision": string(r.code)}
}
