package main

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/internal/tabletest"
	"github.com/pillion-dev/pillion/webhook"
)

// testReplica returns a replica that has not begun to run, with everything switched on, and the registry of its
// metrics. change makes its settings others.
func testReplica(t *testing.T, change ...func(*settings.Settings)) (*replica, *prometheus.Registry) {
	t.Helper()
	c, err := settings.Parse([]byte("{server: {namespace: pillion-system}, templates: {namespaced: true}, namespaces: {proof: pillion-proof, uninstallMarker: pillion-uninstall}, pods: {countEvery: 5m}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	replica, err := newReplica(c, &rest.Config{Host: "https://127.0.0.1:1"}, registry, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return replica, registry
}

// described is a metric as its collector describes it.
type described struct {
	name, help string
	labels     []string
}

var descPattern = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{([^}]*)\}\}$`)

// ownMetrics returns the metrics of a registry that are Pillion's own, by name.
func ownMetrics(t *testing.T, registry *prometheus.Registry) []described {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() { registry.Describe(descs); close(descs) }()
	var all []described
	for desc := range descs {
		parts := descPattern.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Fatalf("the description %s cannot be read", desc)
		}
		var d described
		if _, err := fmt.Sscanf(parts[1]+" "+parts[2], "%q %q", &d.name, &d.help); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(d.name, "go_") || strings.HasPrefix(d.name, "process_") {
			continue
		}
		for label := range strings.SplitSeq(parts[3]+","+parts[4], ",") {
			if name, _, _ := strings.Cut(label, "="); name != "" {
				d.labels = append(d.labels, name)
			}
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b described) int { return cmp.Compare(a.name, b.name) })
	return all
}

var update = flag.Bool("update", false, "write the generated pages of the documentation anew")

// metricUse is what a metric is for, and its type.
type metricUse struct{ kind, use string }

// metricUses returns the uses of all metrics of a registry, by name.
func metricUses(t *testing.T, registry *prometheus.Registry) map[string]metricUse {
	t.Helper()
	uses := map[string]metricUse{}
	for _, row := range tabletest.Rows(t, "testdata/metrics.txt") {
		uses[row.Name] = metricUse{row.Want(), row.Input}
	}
	seen := map[string]bool{}
	for _, d := range ownMetrics(t, registry) {
		if seen[d.name] = true; uses[d.name].use == "" {
			t.Errorf("testdata/metrics.txt says nothing about %s", d.name)
		}
	}
	for name := range uses {
		if !seen[name] {
			t.Errorf("no replica has %s, which testdata/metrics.txt names", name)
		}
	}
	// What is there before the first review has the type that the reference says.
	for _, f := range gathered(t, registry) {
		if u, ok := uses[f.GetName()]; ok && strings.ToLower(f.GetType().String()) != u.kind {
			t.Errorf("%s is a %s, and testdata/metrics.txt says %s", f.GetName(), f.GetType(), u.kind)
		}
	}
	return uses
}

func gathered(t *testing.T, registry *prometheus.Registry) []*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// valuesOf returns the values that a label has in a family of metrics.
func valuesOf(families []*dto.MetricFamily, name, label string) []string {
	values := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == label {
					values[l.GetValue()] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(values))
}

// labelValues says what the values of a label can be. The key is the label, or the metric, a dot and
// the label where they differ.
func labelValues(t *testing.T, families []*dto.MetricFamily) map[string]string {
	t.Helper()
	code := func(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }
	var codes []string
	for _, c := range reason.Codes() {
		codes = append(codes, string(c))
	}
	slices.Sort(codes)
	outcomes := func(name string) string { return name + ".outcome" }
	return map[string]string{
		"webhook": code(valuesOf(families, "pillion_admission_unavailable_total", "webhook")),
		"check":   code(valuesOf(families, "pillion_ready", "check")),
		"cache":   code(valuesOf(families, "pillion_cache_age_seconds", "cache")),
		"state":   code([]string{follow.StateCurrent, follow.StateUnreadable}),
		"reason":  "a reason code of [events.md](events.md), or empty for an answer without one",
		"dry_run": code([]string{"true", "false"}),
		"good":    code([]string{"true", "false"}),
		"result":  code([]string{"succeeded", "failed"}),
		"label":   "the keys of Pillion's labels of namespaces: " + code(valuesOf(families, "pillion_namespaces_missing_label", "label")),

		outcomes("pillion_admission_requests_total"):     code(webhook.Outcomes()),
		outcomes("pillion_admission_duration_seconds"):   code(webhook.Outcomes()),
		outcomes("pillion_reviewed_pods_total"):          code([]string{"injected", "unchanged", "denied"}),
		outcomes("pillion_injections_total"):             "a reason code of [events.md](events.md); `Injected` is the good one",
		outcomes("pillion_events_total"):                 code(events.Outcomes()) + ". `withheld` is beyond its namespace's share; `dropped` found the queue full; the namespace of `refuted` does not exist",
		outcomes("pillion_namespace_label_writes_total"): code([]string{"written", "failed", "conflict"}) + "; `conflict`: another field manager owns it",

		"template":                            "the name of a template in force",
		"pillion_injections_total.template":   "the name of a template in force, or `" + webhook.UnknownTemplate + "` for all names that are no template's, or `" + webhook.NamespacedTemplate + "` for all templates of namespaces",
		"pillion_namespaced_templates.reason": "`Compiled`, or why they are not in force: `CompileFailed`, `Shadowed`, `TooMany`, `TooLarge`",
		"exception":                           "the name of an exception of the template",
		"pod_namespace":                       "one of the 20 namespaces with the most such pods, or `(others)`",
		"canary":                              "the name of a canary, or empty for the stable template",
		"canary_of":                           "the name of the stable template, or empty for a template that is no canary",
		"hash":                                "of what rendering reads: the template's `spec` without descriptions, its defaults, and the installer's values that its expressions name",
		"version":                             "of Pillion",
		"pillion_pods.version":                code([]string{coverage.Stable}) + ", the name of a canary, or " + code([]string{coverage.Others}) + " for older versions",
		"ready":                               code([]string{"true", "false"}),
		"goversion":                           "of Go",
		"enforcement":                         code(labels.Enforcements),
		"webhook_scope":                       code([]string{settings.Requested, settings.All}),
		"certs_provider":                      code([]string{settings.SelfSigned, settings.CertManager, settings.Files}),
		"kind":                                code([]string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}),
		"configuration":                       "the name of one of the release's webhook configurations",
		"object":                              "the Secret, the configuration or the file that it is about",
		"operation":                           code([]string{"permission", "secret", "sign", "publish", "files"}),
	}
}

const metricsPage = "../../docs/reference/metrics.md"

//go:generate go test . -run TestTheReferenceOfMetricsIsCurrent -update

// TestTheReferenceOfMetricsIsCurrent holds docs/reference/metrics.md to the registry of a replica.
func TestTheReferenceOfMetricsIsCurrent(t *testing.T) {
	_, registry := testReplica(t)
	values := labelValues(t, gathered(t, registry))
	uses, used := metricUses(t, registry), map[string]bool{}
	var b strings.Builder
	b.WriteString(metricsIntroduction)
	all := ownMetrics(t, registry)
	for _, part := range metricParts {
		fmt.Fprintf(&b, "\n## %s\n", part.title)
		for _, d := range all {
			if !part.has(d.name) {
				continue
			}
			used[d.name] = true
			fmt.Fprintf(&b, "\n### %s\n\n%s. %s\n\n%s\n", d.name, uses[d.name].kind, d.help, uses[d.name].use)
			if len(d.labels) > 0 {
				b.WriteString("\n| label | values |\n| --- | --- |\n")
			}
			for _, label := range d.labels {
				text := cmp.Or(values[d.name+"."+label], values[label])
				if text == "" {
					t.Errorf("nothing says what the values of the label %s of %s can be", label, d.name)
				}
				fmt.Fprintf(&b, "| `%s` | %s |\n", label, text)
			}
		}
	}
	for _, d := range all {
		if !used[d.name] {
			t.Errorf("%s stands in no part of the reference", d.name)
		}
	}
	transcript.Generated(t, metricsPage, "go generate ./cmd/pillion-webhook", b.String(), *update)
}

type metricPart struct {
	title    string
	prefixes []string
}

func (p metricPart) has(name string) bool {
	return slices.ContainsFunc(p.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

var metricParts = []metricPart{
	{"Admission", []string{"pillion_admission_", "pillion_reviewed_pods_total", "pillion_injections_", "pillion_excepted_"}},
	{"Templates", []string{"pillion_template_", "pillion_namespaced_"}},
	{"Running pods", []string{"pillion_pods", "pillion_coverage_"}},
	{"Events", []string{"pillion_events_"}},
	{"A replica's state", []string{"pillion_ready", "pillion_cache_", "pillion_build_", "pillion_config_", "pillion_memory_", "pillion_review_"}},
	{"Enforcement and labels", []string{"pillion_enforcement_", "pillion_proof", "pillion_namespace_", "pillion_namespaces_"}},
	{"Certificates", []string{"pillion_certificate_"}},
}

const metricsIntroduction = "# Metrics\n\n" +
	"For the admin: each metric of a replica, and what it is good for.\n" +
	"Each replica serves them on port 8080 (`adminPort`) at `/metrics`, whether it is ready or not.\n\n" +
	"| value of the chart | what it brings |\n| --- | --- |\n" +
	"| `metrics.serviceMonitor.enabled` | the Prometheus operator scrapes them |\n" +
	"| `metrics.rules.enabled` | alerts: [runbook.md](../troubleshoot/runbook.md#alerts) |\n" +
	"| `metrics.dashboard.enabled` | a Grafana dashboard |\n\n" +
	"![The dashboard has an overview of eleven numbers, then panels of pods, refusals, failures, latency and injections.](../images/dashboard.svg)\n\n" +
	"The picture has the metrics of two replicas over a minute.\nGrafana draws it a little differently, and has more rows below.\n\n" +
	"The API server may call Pillion several times for one pod, because another webhook changed it, or the label of its namespace changes.\n" +
	"`pillion_admission_*` count calls.\n" +
	"`pillion_reviewed_pods_total` and `pillion_injections_total` count a pod once, when it gets its record, the annotation `pillion.dev/status`.\n\n" +
	"No label has a value that grows with what tenants do: names of namespaces and of missing templates stand there for the 20 worst only.\n\n" +
	"The metrics of every Go program, `go_*` and `process_*`, are there too, such as `process_resident_memory_bytes` and `process_cpu_seconds_total`.\n"

// Alerts and commands tell a replica that proves nothing from one that does not say.
func TestAReplicaThatIsToProveNothingSaysThatNothingIsProven(t *testing.T) {
	for _, namespace := range []string{"", "pillion-proof"} {
		_, registry := testReplica(t, func(s *settings.Settings) { s.Namespaces.Proof = namespace })
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "pillion_enforcement_proven" })
		if i < 0 || families[i].Metric[0].Gauge.GetValue() != 0 {
			t.Errorf("%q: no metric says 0", namespace)
		}
	}
}
