package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestNoChangeHasNeitherPatchNorPatchType(t *testing.T) {
	f := newFixture(t, nil)
	w := f.post(t, reviewOf(v1Version, `,"annotations":{"pillion.dev/inject":"false"}`, false))
	r := decodeAnswer(t, w).Response
	if !r.Allowed || r.Patch != nil || r.PatchType != nil || strings.Contains(w.Body.String(), "patch") {
		t.Errorf("%s", w.Body)
	}
}

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
	if len(f.effects.outcomes) != 1 || f.effects.outcomes[0].DryRun || f.effects.outcomes[0].Namespace != "shop" || f.effects.outcomes[0].Pod == nil {
		t.Errorf("effects %+v", f.effects.outcomes)
	}
}

func TestHostileAnnotationValuesGetAPrintableAnswer(t *testing.T) {
	f := newFixture(t, nil)
	for _, value := range []string{"\x00\x1b[31m", strings.Repeat("x", 200000), "\u2028\"'${params}`$(id)", "a\r\nX-Header: 1", ",,,,", "💥"} {
		encoded, _ := json.Marshal(value)
		for _, key := range []string{"pillion.dev/inject", "shipper.pillion.dev/log-level", "shipper.pillion.dev/nope", "pillion.dev/status"} {
			w := f.post(t, reviewOf(v1Version, fmt.Sprintf(`,"annotations":{%q:%s}`, key, encoded), false))
			r := decodeAnswer(t, w).Response
			texts := r.Warnings
			if r.Result != nil {
				texts = append(texts, r.Result.Message)
			}
			for _, text := range texts {
				if text != printable(text) || len(text) > 4096 {
					t.Errorf("%s: %q is not fit to print", key, text)
				}
			}
		}
	}
}

type endless struct{}

func TestADryRunIsMarkedForTheEffectsAndNotCountedAsAnInjection(t *testing.T) {
	f := newFixture(t, nil)
	f.post(t, reviewOf(v1Version, `,"annotations":{"shipper.pillion.dev/log-level":"loud"}`, true))
	if len(f.effects.outcomes) != 1 || !f.effects.outcomes[0].DryRun {
		t.Errorf("effects %+v", f.effects.outcomes)
	}
	f.post(t, reviewOf(v1Version, "", true))
	if n := testutil.CollectAndCount(f.registry, "pillion_injections_total"); n != 0 {
		t.Errorf("%d injections counted on dry runs", n)
	}
	f.post(t, reviewOf(v1Version, "", false))
	if n := testutil.CollectAndCount(f.registry, "pillion_injections_total"); n != 1 {
		t.Errorf("%d injections counted", n)
	}
}

func TestASecondCallThatChangesNothingSaysNothing(t *testing.T) {
	f := newFixture(t, nil)
	r := decodeAnswer(t, f.post(t, injectedReview(t, f, nil))).Response
	if r.Patch != nil || len(r.AuditAnnotations) > 0 || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
}
