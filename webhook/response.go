package webhook

import (
	"strings"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
)

// Response is the answer of a webhook. [Allowed], [Unchanged], [Patched], [Labelled],
// [Skipped] and [Denied] return one. The zero Response is no answer.
type Response struct {
	verdict verdict
	code    reason.Code
	// lines say why the object is refused.
	lines []string
	patch []patch.Operation

	// Warnings are for the person who sent the object. They may have any length and any
	// characters.
	Warnings []string
	// Call tells the first review of a new pod from later ones: metrics count a pod once.
	Call Call
	// Templates are counted. The log and the audit annotation of a patch list the injected
	// ones.
	Templates []injector.TemplateOutcome
	// Events are recorded after the answer is encoded. DryRun and Namespace are replaced by
	// the review's.
	Events []events.Event
}

// Call is the position of a review among the reviews of one new pod. An API server calls again when
// another webhook has changed the pod, and a pod may come through two entries while its namespace's
// label changes.
type Call int

// The calls. A pod without a record looks the same on every call, so each is a FirstCall.
const (
	// NoPod: the review is not about a new pod.
	NoPod Call = iota
	FirstCall
	// LaterCall: the pod has the record of an earlier call, or of the pod that it is a copy of.
	LaterCall
)

// verdict is the value of the label outcome in metrics.
type verdict string

const (
	verdictAllowed   verdict = "allowed"
	verdictUnchanged verdict = "unchanged"
	verdictPatched   verdict = "injected"
	verdictLabelled  verdict = "labelled"
	verdictSkipped   verdict = "skipped"
	verdictDenied    verdict = "denied"
)

// Allowed is the answer of a validating webhook to a good object.
func Allowed(warnings ...string) Response {
	return Response{verdict: verdictAllowed, Warnings: warnings}
}

// Skipped admits an object without a warning. Webhooks that only advise return it if they have no
// time or memory for the object.
func Skipped() Response { return Response{verdict: verdictSkipped} }

// Unchanged is the answer of a mutating webhook that leaves the object as it is. The
// code says why.
func Unchanged(code reason.Code) Response { return Response{verdict: verdictUnchanged, code: code} }

// Patched is the answer of a mutating webhook that changes the object. There is at
// least one operation.
func Patched(code reason.Code, operations []patch.Operation) Response {
	return Response{verdict: verdictPatched, code: code, patch: operations}
}

// Labelled is the answer of a mutating webhook that changes labels of Pillion's own. There
// is at least one operation.
func Labelled(operations []patch.Operation) Response {
	return Response{verdict: verdictLabelled, patch: operations}
}

// Denied refuses the object. The message has one line or several, and ends in the code.
func Denied(code reason.Code, message ...string) Response {
	return Response{verdict: verdictDenied, code: code, lines: message}
}

// injectedTemplates formats the injected templates with their hashes: a=1f00,b=2e41.
func (r Response) injectedTemplates() string {
	var list []string
	for _, t := range r.Templates {
		if t.Code == reason.Injected {
			list = append(list, t.Name+"="+t.Hash)
		}
	}
	return strings.Join(list, ",")
}
