package webhook

import (
	"encoding/json"
	"errors"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
)

// encodeReview returns the answer in the version of the review, with the review's UID. The JSON
// form is the same in v1 and v1beta1.
func encodeReview(apiVersion string, uid types.UID, r Response) ([]byte, error) {
	answer := &admissionv1.AdmissionResponse{UID: uid, Allowed: true, AuditAnnotations: auditAnnotations(r), Warnings: boundWarnings(r.Warnings)}
	switch r.verdict {
	case verdictAllowed, verdictSkipped, verdictUnchanged:
	case verdictDenied:
		answer.Allowed, answer.Result = false, r.code.Refusal(boundMessage(r.lines))
	case verdictPatched, verdictLabelled:
		answer.Patch, answer.PatchType = patch.Marshal(r.patch), ptr.To(admissionv1.PatchTypeJSONPatch)
	default:
		return nil, errors.New("encoding the answer: the webhook has none")
	}
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "AdmissionReview"}, Response: answer})
}

// auditAnnotations returns the annotations for the API server's audit log. They are nil for
// an allowed object, for labels of a namespace, and for a pod that was injected before or did
// not request injection: a second call for a pod adds no second entry.
func auditAnnotations(r Response) map[string]string {
	switch {
	case r.verdict == verdictPatched:
		return map[string]string{"decision": string(r.code), "templates": r.injectedTemplates()}
	case r.verdict == verdictAllowed, r.verdict == verdictSkipped, r.verdict == verdictLabelled, r.verdict == verdictUnchanged && (r.code == reason.Injected || r.code == reason.NotRequested):
		return nil
	}
	return map[string]string{"decision": string(r.code)}
}
