package webhook

import (
	"net/http"
	"strings"
	"testing"
)

func TestARefusalSaysWhatToDoAndEndsInItsReason(t *testing.T) {
	f := newFixture(t, nil)
	r := decodeAnswer(t, f.post(t, reviewOf(v1Version, `,"annotations":{"shipper.pillion.dev/log-level":"loud"}`, false))).Response
	if r.Allowed || r.Result == nil || r.Result.Code != http.StatusForbidden {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{"shipper.pillion.dev/log-level", "loud", "info, debug", "BadParameter", "pillion explain"} {
		if !strings.Contains(r.Result.Message, want) {
			t.Errorf("%q lacks %q", r.Result.Message, want)
		}
	}
	f.post(t, reviewOf(v1Version, `,"annotations":{"shipper.pillion.dev/log-level":"loud"}`, true))
	if told := f.effects.outcomes; len(told) != 2 || told[0].DryRun || told[0].Namespace != "shop" || told[0].Pod == nil || !told[1].DryRun {
		t.Errorf("effects %+v", told)
	}
}

type endless struct{}

func TestASecondCallThatChangesNothingSaysNothing(t *testing.T) {
	f := newFixture(t, nil)
	r := decodeAnswer(t, f.post(t, injectedReview(t, f, nil))).Response
	if r.Patch != nil || len(r.AuditAnnotations) > 0 || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
}
