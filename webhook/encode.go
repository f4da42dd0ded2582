package webhook

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// encodeReview returns the answer in the version of the review, with the review's UID. The JSON
// form is the same in v1 and v1beta1.
func encodeReview(apiVersion string, uid types.UID, r Response) ([]byte, error) {
	var operations []byte
	switch r.verdict {
	case verdictAllowed, verdictSkipped, verdictUnchanged, verdictDenied:
	case verdictPatched, verdictLabelled:
		operations = patch.Marshal(r.patch)
	default:
		return nil, errors.New("encoding the answer: the webhook has none")
	}
	// The members are those of k8s.io/api/admission/v1.AdmissionReview.
	b := make([]byte, 0, 1024+base64.StdEncoding.EncodedLen(len(operations)))
	b = rawjson.AppendText(append(b, `{"kind":"AdmissionReview","apiVersion":`...), apiVersion)
	b = rawjson.AppendText(append(b, `,"response":{"uid":`...), string(uid))
	if r.verdict == verdictDenied {
		status, err := json.Marshal(r.code.Refusal(boundMessage(r.lines)))
		if err != nil {
			return nil, fmt.Errorf("encoding the answer: %w", err)
		}
		b = append(append(b, `,"allowed":false,"status":`...), status...)
	} else {
		b = append(b, `,"allowed":true`...)
	}
	if operations != nil {
		b = base64.StdEncoding.AppendEncode(append(b, `,"patch":"`...), operations)
		b = append(b, `","patchType":"JSONPatch"`...)
	}
	if annotations := auditAnnotations(r); annotations != nil {
		b = rawjson.Append(append(b, `,"auditAnnotations":`...), annotations)
	}
	if warnings := boundWarnings(r.Warnings); len(warnings) > 0 {
		b = append(b, `,"warnings":[`...)
		for i, text := range warnings {
			if i > 0 {
				b = append(b, ',')
			}
			b = rawjson.AppendText(b, text)
		}
		b = append(b, ']')
	}
	return append(b, "}}"...), nil
}

// auditAnnotations returns what the API server's audit log says about a review. There
// is nothing about an object that was injected before, or that nobody asked to inject
// into, so that a second call repeats nothing.
func auditAnnotations(r Response) map[string]any {
	switch {
	case r.verdict == verdictPatched:
		return map[string]any{"decision": string(r.code), "templates": r.injected()}
	case r.verdict == verdictAllowed, r.verdict == verdictSkipped, r.verdict == verdictLabelled, r.verdict == verdictUnchanged && (r.code == reason.Injected || r.code == reason.NotRequested):
		return nil
	}
	return map[string]any{"decision": string(r.code)}
}
