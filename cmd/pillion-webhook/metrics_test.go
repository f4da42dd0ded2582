package main

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/webhook"
)

// testReplica returns a replica that has not begun to run, with everything switched on, and the registry of its
// metrics. change makes its settings others.
func testReplica(t *testing.T, change ...func(*settings.Settings)) (*replica, *prometheus.Registry) {
	t.Helper()
	c, err := settings.Parse([]byte("{server: {namespace: pillion-system}, templates: {namespaced: true}, namespaces: {proof: pillion-proof, uninstallMarker: pillion-uninstall}, pods: {countEvery: 5m}}"))
	errtest.ExpectNone(t, err)
	for _, f := range change {
		f(&c)
	}
	errtest.ExpectNone(t, c.Validate())
	registry := prometheus.NewRegistry()
	replica, err := newReplica(c, &rest.Config{Host: "https://127.0.0.1:1"}, registry, slog.New(slog.DiscardHandler))
	errtest.ExpectNone(t, err)
	return replica, registry
}

var descPattern = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{([^}]*)\}\}$`)

// ownMetrics returns the metrics of a registry that are Pillion's own, by name, without their types.
func ownMetrics(t *testing.T, registry *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() { registry.Describe(descs); close(descs) }()
	all := map[string]*dto.MetricFamily{}
	for desc := range descs {
		parts := descPattern.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Fatalf("the description %s cannot be read", desc)
		}
		var name, help string
		if _, err := fmt.Sscanf(parts[1]+" "+parts[2], "%q %q", &name, &help); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		metric := &dto.Metric{}
		for label := range strings.SplitSeq(parts[3]+","+parts[4], ",") {
			if label, _, _ := strings.Cut(label, "="); label != "" {
				metric.Label = append(metric.Label, &dto.LabelPair{Name: new(label), Value: new("x")})
			}
		}
		all[name] = &dto.MetricFamily{Name: new(name), Help: new(help), Metric: []*dto.Metric{metric}}
	}
	return all
}

// sections returns the sections of metrics on the pages of the reference, by the metric's name, and the
// values of the labels of several metrics.
func sections(t *testing.T) (all map[string]string, shared string) {
	t.Helper()
	all = map[string]string{}
	for _, page := range []string{"metrics.md", "replica-metrics.md"} {
		text, err := os.ReadFile("../../docs/reference/" + page)
		errtest.ExpectNone(t, err)
		for section := range strings.SplitSeq(strings.ReplaceAll(string(text), "\n## ", "\n### "), "\n### ") {
			name, rest, _ := strings.Cut(section, "\n\n")
			switch {
			case strings.HasPrefix(name, "pillion_"):
				all[name] = rest
			case name == "Labels of several metrics":
				shared += rest
			}
		}
	}
	return all, shared
}

// Each metric has a section of the reference, with its type, its help and its labels, and keeps
// Prometheus' conventions. The linter is that of 'promtool check metrics', which sees only what a
// scrape has: here it sees all of them.
func TestEachMetricIsInTheReferenceAndKeepsPrometheusConventions(t *testing.T) {
	_, registry := testReplica(t)
	pages, _ := sections(t)
	all := ownMetrics(t, registry)
	var families []*dto.MetricFamily
	for name, f := range all {
		kind, text, _ := strings.Cut(pages[name], ". ")
		value, ok := dto.MetricType_value[strings.ToUpper(kind)]
		if !ok || !strings.HasPrefix(text, strings.ReplaceAll(f.GetHelp(), ". ", ".\n")) {
			t.Errorf("docs/reference has no section %s with its type and the help %q:\n%s", name, f.GetHelp(), pages[name])
		}
		for _, label := range f.Metric[0].Label {
			if !strings.Contains(text, "`"+label.GetName()+"`") {
				t.Errorf("docs/reference does not say that %s has the label %s", name, label.GetName())
			}
		}
		f.Type = dto.MetricType(value).Enum()
		families = append(families, f)
	}
	for name := range pages {
		if all[name] == nil {
			t.Errorf("no replica has %s, of which docs/reference has a section", name)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %+v", err, problems)
	}
}

// The queries of the dashboard and of alerts are held to the values of labels that the reference lists.
func TestTheReferenceHasTheTypesAndTheLabelsValuesOfWhatAReplicaStartsWith(t *testing.T) {
	_, registry := testReplica(t)
	pages, shared := sections(t)
	if want := "- `outcome`: `" + strings.Join(webhook.Outcomes(), "`, `") + "`\n"; !strings.Contains(shared, want) {
		t.Errorf("docs/reference/metrics.md lacks %s", want)
	}
	families, err := registry.Gather()
	errtest.ExpectNone(t, err)
	for _, f := range families {
		page, ok := pages[f.GetName()]
		if ok && !strings.HasPrefix(page, strings.ToLower(f.GetType().String())+". ") {
			t.Errorf("%s is a %s, and docs/reference says %.20s", f.GetName(), f.GetType(), page)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if slices.Contains([]string{"webhook", "check", "cache", "state", "result", "label", "outcome"}, l.GetName()) && !strings.Contains(page+shared, "`"+l.GetValue()+"`") {
					t.Errorf("docs/reference does not say that %s of %s can be %s", l.GetName(), f.GetName(), l.GetValue())
				}
			}
		}
	}
}

// Alerts and commands tell a replica that proves nothing from one that does not say.
func TestAReplicaThatIsToProveNothingSaysThatNothingIsProven(t *testing.T) {
	for _, namespace := range []string{"", "pillion-proof"} {
		_, registry := testReplica(t, func(s *settings.Settings) { s.Namespaces.Proof = namespace })
		families, err := registry.Gather()
		errtest.ExpectNone(t, err)
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "pillion_enforcement_proven" })
		if i < 0 || families[i].Metric[0].Gauge.GetValue() != 0 {
			t.Errorf("%q: no metric says 0", namespace)
		}
	}
}
