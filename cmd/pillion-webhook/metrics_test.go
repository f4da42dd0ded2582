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
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/coverage"
	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/injector/reason"
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

// metricUses has the type of each metric, and advice that its help does not give. Alerts and the dashboard
// of the chart use most of them.
var metricUses = map[string]struct {
	kind dto.MetricType
	use  string
}{
	"pillion_admission_requests_total":                       {dto.MetricType_COUNTER, "`dry_run=\"false\"`: real objects."},
	"pillion_admission_duration_seconds":                     {dto.MetricType_HISTOGRAM, "A pod without sidecars takes less than 100 µs, an injected one less than 2 ms."},
	"pillion_admission_unavailable_total":                    {dto.MetricType_COUNTER, "A steady rate: too few replicas, or too little memory."},
	"pillion_reviewed_pods_total":                            {dto.MetricType_COUNTER, "A pod that gets nothing has no record, and counts for each call.\nA pod that another webhook refuses later has been counted."},
	"pillion_injections_total":                               {dto.MetricType_COUNTER, ""},
	"pillion_template_info":                                  {dto.MetricType_GAUGE, ""},
	"pillion_excepted_pods_total":                            {dto.MetricType_COUNTER, ""},
	"pillion_template_exception_end_timestamp_seconds":       {dto.MetricType_GAUGE, ""},
	"pillion_namespaced_templates":                           {dto.MetricType_GAUGE, "If `TooLarge` grows, raise `resources.limits.memory`."},
	"pillion_pods_missing_injection":                         {dto.MetricType_GAUGE, ""},
	"pillion_pods_outdated":                                  {dto.MetricType_GAUGE, "What `pillion rollout` would bring up to date."},
	"pillion_pods":                                           {dto.MetricType_GAUGE, "Compare a canary with the stable version."},
	"pillion_coverage_last_success_timestamp_seconds":        {dto.MetricType_GAUGE, ""},
	"pillion_coverage_skipped_pods":                          {dto.MetricType_GAUGE, ""},
	"pillion_events_total":                                   {dto.MetricType_COUNTER, ""},
	"pillion_ready":                                          {dto.MetricType_GAUGE, ""},
	"pillion_cache_age_seconds":                              {dto.MetricType_GAUGE, ""},
	"pillion_cache_state":                                    {dto.MetricType_GAUGE, ""},
	"pillion_enforcement_proven":                             {dto.MetricType_GAUGE, "Whether namespaces may be enforced. Each replica proves for itself, unless `enforcement` is `None`."},
	"pillion_proofs_total":                                   {dto.MetricType_COUNTER, ""},
	"pillion_namespaces_missing_label":                       {dto.MetricType_GAUGE, "0 within seconds."},
	"pillion_namespaces_failing_label":                       {dto.MetricType_GAUGE, ""},
	"pillion_namespace_label_writes_total":                   {dto.MetricType_COUNTER, ""},
	"pillion_certificate_expiry_timestamp_seconds":           {dto.MetricType_GAUGE, ""},
	"pillion_certificate_authority_expiry_timestamp_seconds": {dto.MetricType_GAUGE, ""},
	"pillion_certificate_published":                          {dto.MetricType_GAUGE, "0: API servers cannot verify this replica, so each of its calls fails."},
	"pillion_certificate_problem":                            {dto.MetricType_GAUGE, "Absent while nothing fails."},
	"pillion_certificate_rotations_total":                    {dto.MetricType_COUNTER, ""},
	"pillion_certificate_authorities_made_total":             {dto.MetricType_COUNTER, "More than one in a CA's life: replicas do not see each other's Secret."},
	"pillion_certificate_failures_total":                     {dto.MetricType_COUNTER, ""},
	"pillion_build_info":                                     {dto.MetricType_GAUGE, ""},
	"pillion_config_info":                                    {dto.MetricType_GAUGE, ""},
	"pillion_memory_limit_bytes":                             {dto.MetricType_GAUGE, ""},
	"pillion_review_timeout_seconds":                         {dto.MetricType_GAUGE, ""},
}

// Every metric that a replica registers keeps Prometheus' conventions. The linter is that of
// 'promtool check metrics', which sees only what a scrape has: here it sees all of them.
func TestEveryMetricKeepsPrometheusConventions(t *testing.T) {
	_, registry := testReplica(t)
	var families []*dto.MetricFamily
	seen := map[string]bool{}
	for _, d := range ownMetrics(t, registry) {
		u, ok := metricUses[d.name]
		if !ok {
			t.Errorf("metricUses says nothing about %s", d.name)
			continue
		}
		seen[d.name] = true
		if !strings.HasPrefix(d.name, "pillion_") || !strings.HasSuffix(d.help, ".") {
			t.Errorf("%s: the name has no prefix pillion_, or the help no full stop: %q", d.name, d.help)
		}
		metric := &dto.Metric{}
		for _, label := range d.labels {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: new(label), Value: new("x")})
		}
		families = append(families, &dto.MetricFamily{Name: new(d.name), Help: new(d.help), Type: u.kind.Enum(), Metric: []*dto.Metric{metric}})
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for name := range metricUses {
		if !seen[name] {
			t.Errorf("no replica has %s, which metricUses names", name)
		}
	}
	// What is there before the first review has the type that the reference says.
	for _, f := range gathered(t, registry) {
		if u, ok := metricUses[f.GetName()]; ok && f.GetType() != u.kind {
			t.Errorf("%s is a %s, and metricUses says %s", f.GetName(), f.GetType(), u.kind)
		}
	}
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

		"outcome":                                        code(webhook.Outcomes()),
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

const (
	metricsPage        = "../../docs/reference/metrics.md"
	replicaMetricsPage = "../../docs/reference/replica-metrics.md"
)

//go:generate go test . -run TestTheReferenceOfMetricsIsCurrent -update

// TestTheReferenceOfMetricsIsCurrent holds docs/reference/metrics.md and replica-metrics.md to the registry of a replica.
func TestTheReferenceOfMetricsIsCurrent(t *testing.T) {
	_, registry := testReplica(t)
	values, all := labelValues(t, gathered(t, registry)), ownMetrics(t, registry)
	for _, d := range all {
		if !slices.ContainsFunc(slices.Concat(podMetrics, replicaMetrics), func(p metricPart) bool { return p.has(d.name) }) {
			t.Errorf("%s stands in no part of the reference", d.name)
		}
	}
	writeMetrics(t, metricsPage, metricsIntroduction, podMetrics, all, values)
	writeMetrics(t, replicaMetricsPage, replicaMetricsIntroduction, replicaMetrics, all, values)
}

// writeMetrics compares a page with the metrics of some parts, or writes it.
func writeMetrics(t *testing.T, path, introduction string, parts []metricPart, all []described, values map[string]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString(introduction)
	var own []described
	for _, d := range all {
		if slices.ContainsFunc(parts, func(p metricPart) bool { return p.has(d.name) }) {
			own = append(own, d)
		}
	}
	shared := sharedLabels(own, values)
	for _, part := range parts {
		fmt.Fprintf(&b, "\n## %s\n", part.title)
		for _, d := range own {
			if !part.has(d.name) {
				continue
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s. %s\n", d.name, strings.ToLower(metricUses[d.name].kind.String()), strings.ReplaceAll(d.help, ". ", ".\n"))
			if advice := metricUses[d.name].use; advice != "" {
				b.WriteString(advice + "\n")
			}
			writeLabels(t, &b, d, values, shared)
		}
	}
	b.WriteString("\n## Labels of several metrics\n\n")
	for _, label := range shared {
		fmt.Fprintf(&b, "- `%s`: %s\n", label, values[label])
	}
	transcript.Generated(t, path, "go generate ./cmd/pillion-webhook", b.String(), *update)
}

// sharedLabels returns the labels that have the same values in several metrics.
func sharedLabels(all []described, values map[string]string) []string {
	count := map[string]int{}
	for _, d := range all {
		for _, label := range d.labels {
			if values[d.name+"."+label] == "" {
				count[label]++
			}
		}
	}
	maps.DeleteFunc(count, func(label string, n int) bool { return n < 2 })
	return slices.Sorted(maps.Keys(count))
}

// writeLabels writes the labels of a metric, and their values unless the page has them for several metrics.
func writeLabels(t *testing.T, b *strings.Builder, d described, values map[string]string, shared []string) {
	t.Helper()
	var names, lines []string
	for _, label := range d.labels {
		text := cmp.Or(values[d.name+"."+label], values[label])
		switch {
		case text == "":
			t.Errorf("nothing says what the values of the label %s of %s can be", label, d.name)
		case slices.Contains(shared, label) && text == values[label]:
			names = append(names, "`"+label+"`")
		default:
			lines = append(lines, fmt.Sprintf("- `%s`: %s\n", label, text))
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "\nLabels: %s.\n", strings.Join(names, ", "))
	}
	if len(lines) > 0 {
		b.WriteString("\n" + strings.Join(lines, ""))
	}
}

type metricPart struct {
	title    string
	prefixes []string
}

func (p metricPart) has(name string) bool {
	return slices.ContainsFunc(p.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// podMetrics are the parts of the page about pods and templates.
var podMetrics = []metricPart{
	{"Admission", []string{"pillion_admission_", "pillion_reviewed_pods_total", "pillion_injections_", "pillion_excepted_"}},
	{"Templates", []string{"pillion_template_", "pillion_namespaced_"}},
	{"Running pods", []string{"pillion_pods", "pillion_coverage_"}},
	{"Events", []string{"pillion_events_"}},
	{"Enforcement and labels", []string{"pillion_enforcement_", "pillion_proof", "pillion_namespace_", "pillion_namespaces_"}},
}

// replicaMetrics are the parts of the page about a replica and its certificates.
var replicaMetrics = []metricPart{
	{"A replica's state", []string{"pillion_ready", "pillion_cache_", "pillion_build_", "pillion_config_", "pillion_memory_", "pillion_review_"}},
	{"Certificates", []string{"pillion_certificate_"}},
}

const replicaMetricsIntroduction = "# Metrics of a replica\n\n" +
	"For the admin: metrics of a replica's state and of its certificates; [metrics](metrics.md) of pods come first.\n"

const metricsIntroduction = "# Metrics\n\n" +
	"For the admin: metrics of pods, templates and namespaces; [a replica and its certificates](replica-metrics.md) have a page of their own.\n" +
	"Each replica serves them on port 8080 (`adminPort`) at `/metrics`, whether it is ready or not.\n\n" +
	"`metrics.serviceMonitor.enabled` has the Prometheus operator scrape them.\n\n" +
	"![The dashboard has an overview, then panels of pods, refusals, failures, latency and injections.](../images/dashboard.svg)\n\n" +
	"`metrics.dashboard.enabled` brings the dashboard, `metrics.rules.enabled` [the alerts](../troubleshoot/runbook.md#alerts).\n\n" +
	"The API server may call Pillion several times for one pod: `pillion_admission_*` count calls.\n" +
	"`pillion_reviewed_pods_total` and `pillion_injections_total` count a pod once, when it gets its record.\n" +
	"All replicas count the same running pods: take the maximum, not the sum.\n" +
	"Tenants cannot make series.\n"

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
