package state

import (
	_ "embed"
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

//go:embed testdata/metrics.txt
var metrics string

func TestTheStateIsWhatTheMetricsSay(t *testing.T) {
	ends := new(time.Unix(1_900_000_000, 0).UTC())
	want := State{
		Version: "7", Templates: map[string]string{"good": "1", "lost": "2"}, Broken: []string{"lost"},
		CacheAgeSeconds: map[string]float64{"namespaces": 0.25}, EnforcementProven: new(false), PodsLastLookedAt: new(time.Unix(1_800_000_000, 0).UTC()),
		FailingLabels: map[string]int{"pillion.dev/required": 3},
		Certificates: Certificates{
			Ends: ends, Problems: []string{"secret: secret own/pillion-ca"},
			Published: []Published{{"MutatingWebhookConfiguration", "pillion", true}},
		},
	}
	body, err := json.Marshal(FromMetrics("7", gathered(t, metrics)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
	problems := []string{"secret: secret own/pillion-ca", "label pillion.dev/required: cannot be written on 3 namespaces, so they get no sidecars or are not enforced"}
	if r := (Replica{Answers: true, State: got}); !slices.Equal(r.Problems(), problems) {
		t.Errorf("%q", r.Problems())
	}
}
