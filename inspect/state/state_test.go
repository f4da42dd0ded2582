package state

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// gathered are metrics, as a replica gathers them.
func gathered(t *testing.T, text string) []*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var all []*dto.MetricFamily
	for _, f := range families {
		all = append(all, f)
	}
	return all
}

const metrics = `# TYPE pillion_unknown_template_namespaces gauge
pillion_unknown_template_namespaces{template="fluent-bit"} 5
pillion_unknown_template_namespaces{template="(others)"} 0
# TYPE pillion_template_info gauge
pillion_template_info{template="good",hash="1",good="true"} 1
pillion_template_info{template="lost",hash="2",good="false"} 1
# TYPE pillion_in_use_record_failing gauge
pillion_in_use_record_failing 1
# TYPE pillion_namespaces_failing_label gauge
pillion_namespaces_failing_label{label="pillion.dev/required"} 3
pillion_namespaces_failing_label{label="pillion.dev/injection"} 0
# TYPE pillion_cache_age_seconds gauge
pillion_cache_age_seconds{cache="namespaces"} 0.25
pillion_cache_age_seconds{cache="templates"} 1e300
# TYPE pillion_enforcement_proven gauge
pillion_enforcement_proven 0
# TYPE pillion_proof_failing gauge
pillion_proof_failing{outcome="NotInjected"} 1
# TYPE pillion_unauthorized gauge
pillion_unauthorized 1
# TYPE pillion_survey_last_success_timestamp_seconds gauge
pillion_survey_last_success_timestamp_seconds 1.8e9
# TYPE pillion_certificate_provider_info gauge
pillion_certificate_provider_info{provider="self-signed",secret="pillion-ca",publishes="true"} 1
# TYPE pillion_certificate_expiry_timestamp_seconds gauge
pillion_certificate_expiry_timestamp_seconds 1.9e9
# TYPE pillion_certificate_authority_expiry_timestamp_seconds gauge
pillion_certificate_authority_expiry_timestamp_seconds 0
# TYPE pillion_certificate_rotations_total counter
pillion_certificate_rotations_total 3
# TYPE pillion_certificate_handovers_total counter
pillion_certificate_handovers_total 1
# TYPE pillion_certificate_failures_total counter
pillion_certificate_failures_total{operation="publish"} 1
pillion_certificate_failures_total{operation="secret"} 1
# TYPE pillion_certificate_problem gauge
pillion_certificate_problem{object="secret own/pillion-ca",operation="secret"} 1
# TYPE pillion_certificate_published gauge
pillion_certificate_published{configuration="pillion",kind="MutatingWebhookConfiguration"} 1
# TYPE pillion_certificate_authority_until_timestamp_seconds gauge
pillion_certificate_authority_until_timestamp_seconds{fingerprint="ab",state="signing"} 1.9e9
`

func TestTheStateIsWhatTheMetricsSay(t *testing.T) {
	ends := new(time.Unix(1_900_000_000, 0).UTC())
	want := State{
		Version: "7", Settings: map[string]any{"library": []any{"fluent-bit"}}, Templates: map[string]string{"good": "1", "lost": "2"}, Broken: []string{"lost"}, UnknownTemplates: map[string]int{"fluent-bit": 5},
		CacheAgeSeconds: map[string]float64{"namespaces": 0.25}, EnforcementProven: new(false), ProofFailing: []string{"NotInjected"}, PodsLastLookedAt: new(time.Unix(1_800_000_000, 0).UTC()),
		Unauthorized: true, FailingLabels: map[string]int{"pillion.dev/required": 3}, InUseRecordFailing: true,
		Certificates: Certificates{
			Provider: "self-signed", Secret: "pillion-ca", Publishes: true, Ends: ends, Rotations: 3, Handovers: 1, Failures: 2, Problems: []string{"secret: secret own/pillion-ca"},
			Published: []Published{{"MutatingWebhookConfiguration", "pillion", true}}, Authorities: []Authority{{"ab", "signing", ends}},
		},
	}
	body, err := json.Marshal(Of("7", map[string]any{"library": []string{"fluent-bit"}}, gathered(t, metrics)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
	problems := []string{"secret: secret own/pillion-ca", "label pillion.dev/required: cannot be written on 3 namespaces, so what it asks for is not done there", "the templates in use cannot be recorded, so an upgrade that drops one is not held up"}
	if r := (Replica{Answers: true, State: got}); !slices.Equal(r.Problems(), problems) || !r.Ready() {
		t.Errorf("%q", r.Problems())
	}
}

func TestAStateWithoutAnythingIsOne(t *testing.T) {
	body, err := json.Marshal(Of("", nil, nil))
	if got, wrong := Decode(body); err != nil || wrong != nil || len(Replica{State: got}.Problems()) > 0 {
		t.Errorf("%v %v %+v", err, wrong, got)
	}
}
