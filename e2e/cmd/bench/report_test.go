package main

import (
	"strings"
	"testing"
	"time"
)

// measured is a report in which each case takes so many milliseconds every time.
func measured(millis map[string]float64) report {
	r := report{times: map[string][]time.Duration{}, calls: map[string]string{}}
	for _, c := range cases {
		r.times[c.name] = []time.Duration{time.Duration(millis[c.name] * float64(time.Millisecond))}
	}
	return r
}

func TestARatioIsOfWhatIsAddedToNothing(t *testing.T) {
	tests := []struct {
		millis map[string]float64
		missed bool
		line   string
	}{
		{map[string]float64{nothing: 2, fixedRecord: 3, fluentBit: 3.15}, false, "fluent-bit ratio=1.15 target=1.25"},
		{map[string]float64{nothing: 2, fixedRecord: 3, fluentBit: 4}, true, "pillion-fluent-bit p50_ms=4.00 adds_ms=2.00"},
		{map[string]float64{nothing: 2, fixedRecord: 2, fluentBit: 2}, true, "ratio=NaN"},
	}
	for _, test := range tests {
		r := measured(test.millis)
		if got := r.missed(); got != test.missed {
			t.Errorf("%v: missed %t, want %t", test.millis, got, test.missed)
		}
		if !strings.Contains(r.String(), test.line) {
			t.Errorf("%v: no line with %q in\n%s", test.millis, test.line, r)
		}
	}
}

func TestCallsAreCountedByTheNameOfTheWebhook(t *testing.T) {
	const metrics = `# HELP apiserver_admission_webhook_request_total calls
apiserver_admission_webhook_request_total{code="200",name="requested.pillion.dev",operation="CREATE",rejected="false",type="admit"} 40
apiserver_admission_webhook_request_total{code="500",name="requested.pillion.dev",operation="CREATE",rejected="true",type="admit"} 2
apiserver_admission_webhook_rejection_count{name="requested.pillion.dev"} 7
apiserver_mutating_admission_policy_check_total{error_type="no_error",policy="p",policy_binding="b"} 1e+03
`
	got, err := calls([]byte(metrics))
	if err != nil || len(got) != 2 || got["requested.pillion.dev"] != 42 || got["p"] != 1000 {
		t.Errorf("calls %v, %v", got, err)
	}
	if said := perPod(map[string]float64{"requested.pillion.dev": 2, "p": 1000}, got, 20); said != "requested.pillion.dev:2" {
		t.Errorf("said %s", said)
	}
	if said := perPod(got, got, 20); said != "none" {
		t.Errorf("said %s", said)
	}
}
