package webhook

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/pillion-dev/pillion/injector/reason"
)

// TestAClientReadsTheCodeOfEachAnswer passes answers through the API server's own
// function, as a client of the API server gets them.
func TestAClientReadsTheCodeOfEachAnswer(t *testing.T) {
	answer := func(annotations string) *admissionv1.AdmissionResponse {
		return decodeAnswer(t, newFixture(t, nil).post(t, reviewOf(v1Version, annotations, true))).Response
	}
	bad, err := json.Marshal(`a,,b (NotAllowedHere)`)
	if err != nil {
		t.Fatal(err)
	}
	for annotations, want := range map[string]reason.Code{
		`,"annotations":{"shipper.pillion.dev/log-level":"loud"}`:   reason.BadParameter,
		`,"annotations":{"pillion.dev/inject":"nothing"}`:           reason.UnknownTemplate,
		`,"annotations":{"pillion.dev/inject":` + string(bad) + `}`: reason.BadAnnotation,
	} {
		r := answer(annotations)
		if got, ok := reason.OfRefusal(webhookerrors.ToStatusErr("requested.pillion.dev", r.Result)); got != want || !ok {
			t.Errorf("%s: the refusal has the code %q (%v), want %s: %+v", annotations, got, ok, want, r.Result)
		}
	}
	refused := judgeTemplate(t, "CREATE", mistaken(t, ""), nil)
	if got, ok := reason.OfRefusal(webhookerrors.ToStatusErr("templates.pillion.dev", refused.Result)); got != reason.TemplateInvalid || !ok {
		t.Errorf("the guard's refusal has the code %q (%v): %+v", got, ok, refused.Result)
	}
	warned := answer(`,"annotations":{"pillion.dev/inject":"-nothing"}`)
	if len(warned.Warnings) != 1 {
		t.Fatalf("warnings %q", warned.Warnings)
	}
	if got, ok := reason.OfWarning(warned.Warnings[0]); got != reason.UnknownTemplate || !ok {
		t.Errorf("%q has the code %q (%v)", warned.Warnings[0], got, ok)
	}
}
