package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// prometheusTools is the folder of promtool and evaluate, which the first test that asks builds.
var prometheusTools = sync.OnceValues(func() (string, error) {
	return ground.Prometheus(context.Background(), checkout, os.Stderr)
})

// prometheusTool runs promtool or evaluate, and returns what it says.
func prometheusTool(t *testing.T, input, tool string, args ...string) (string, error) {
	t.Helper()
	dir, err := prometheusTools()
	expectNoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, tool), args...)
	cmd.Stdin = strings.NewReader(input)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", tool, strings.Join(args, " "), err, &out, &said)
	}
	return out.String() + said.String(), err
}

// scrape is what a replica says at /metrics.
func scrape(t *testing.T, r ground.Replica) string {
	t.Helper()
	status, text, err := asked(r, "/metrics")
	if err != nil || status != http.StatusOK {
		t.Fatalf("HTTP %d, %v", status, err)
	}
	return text
}

func TestPromtoolFindsNothingWrongInAScrape(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, map[string]string{injectAnnotation: "fluent-bit"}, nil)
	n.mustCreate(t, newPod("web", nil))
	for _, r := range shared.Replicas(ground.Namespace) {
		if said, err := prometheusTool(t, scrape(t, r), "promtool", "check", "metrics"); err != nil || said != "" {
			t.Errorf("%v %s", err, said)
		}
	}
}

// Each alert fires where it should, and not where it should not, and links its section of the runbook.
func TestEveryAlertFiresWhereItShouldAndNotWhereItShouldNot(t *testing.T) {
	t.Parallel()
	file, tests := filepath.Join(checkout.Chart(), "files", "alerts.yaml"), checkout.Path("e2e", "testdata", "alerts_test.yaml")
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", file}, {"test", "rules", tests}} {
		if _, err := prometheusTool(t, "", "promtool", args...); err != nil {
			t.Error(err)
		}
	}
	var rules monitoringv1.PrometheusRuleSpec
	var tested struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	read(t, file, &rules)
	read(t, tests, &tested)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, one := range tested.Tests {
		for _, r := range one.AlertRuleTest {
			if len(r.ExpAlerts) > 0 {
				fires[r.Alertname] = true
			} else {
				quiet[r.Alertname] = true
			}
		}
	}
	alerts := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts++
			if !fires[rule.Alert] || !quiet[rule.Alert] {
				t.Errorf("%s: tested that it fires: %v, that it is quiet: %v", rule.Alert, fires[rule.Alert], quiet[rule.Alert])
			}
			if want := "https://github.com/pillion-dev/pillion/blob/main/docs/troubleshoot/runbook.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
				t.Errorf("%s: the runbook is %q, want %q", rule.Alert, rule.Annotations["runbook_url"], want)
			}
			if s := rule.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s: the severity is %q", rule.Alert, s)
			}
		}
	}
	if alerts == 0 {
		t.Error("there is no alert")
	}
}

// read reads a YAML file.
func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	expectNoError(t, err)
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// The Prometheus operator's own types say what it can read. Unknown fields are errors.
func TestWhatIsForTheOperatorAndForGrafanaIsRenderedOnlyWhereAskedFor(t *testing.T) {
	t.Parallel()
	plain := render(t)
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		if plain.has(kind) {
			t.Errorf("the chart has a %s that nobody asked for: without the operator's CRDs it cannot be installed", kind)
		}
	}
	all := render(t, "metrics.serviceMonitor.enabled=true", "metrics.labels.release=prometheus",
		"metrics.rules.enabled=true", "metrics.dashboard.enabled=true")
	monitor, rule := only[monitoringv1.ServiceMonitor](t, all, "ServiceMonitor"), only[monitoringv1.PrometheusRule](t, all, "PrometheusRule")
	if monitor.Labels["release"] != "prometheus" || rule.Labels["release"] != "prometheus" || len(monitor.Spec.Endpoints) != 1 {
		t.Errorf("%s\n%s", pretty(monitor), pretty(rule.ObjectMeta))
	}
	// The ServiceMonitor selects the Service of metrics by its labels and the name of its port.
	var ports []string
	for _, object := range all {
		if object.GetKind() != "Service" {
			continue
		}
		labels := object.GetLabels()
		for key, value := range monitor.Spec.Selector.MatchLabels {
			if labels[key] != value {
				t.Errorf("the Service %s has not the label %s=%s by which it is selected", object.GetName(), key, value)
			}
		}
		service := only[corev1.Service](t, rendered{object}, "Service")
		for _, p := range service.Spec.Ports {
			if p.Name == monitor.Spec.Endpoints[0].Port {
				ports = append(ports, fmt.Sprint(service.Name, ":", p.Port))
			}
		}
	}
	if fmt.Sprint(ports) != "[pillion-metrics:8080]" {
		t.Errorf("the ServiceMonitor selects %v", ports)
	}
	var shipped monitoringv1.PrometheusRuleSpec
	read(t, filepath.Join(checkout.Chart(), "files", "alerts.yaml"), &shipped)
	if !reflect.DeepEqual(rule.Spec, shipped) {
		t.Error("the PrometheusRule is not files/alerts.yaml")
	}
	i := slices.IndexFunc(all, func(o unstructured.Unstructured) bool {
		return o.GetKind() == "ConfigMap" && o.GetLabels()["grafana_dashboard"] == "1"
	})
	if i < 0 {
		t.Fatal("there is no ConfigMap for Grafana")
	}
	config := only[corev1.ConfigMap](t, rendered{all[i]}, "ConfigMap")
	file, err := os.ReadFile(filepath.Join(checkout.Chart(), "files", "dashboard.json"))
	expectNoError(t, err)
	if strings.TrimSpace(config.Data["pillion.json"]) != strings.TrimSpace(string(file)) {
		t.Error("the ConfigMap has not the dashboard")
	}
}

// dashboard is what a test reads of a Grafana dashboard.
type dashboard struct {
	Panels []struct {
		ID          int
		Type, Title string
		Description string
		GridPos     struct{ X, Y, W, H int }
		FieldConfig struct{ Defaults struct{ NoValue string } }
		Targets     []struct{ Expr, LegendFormat string }
	}
}

// evaluated is what Prometheus' engine says to a query.
type evaluated struct {
	Error  string
	Series []struct {
		Labels map[string]string
		Points [][2]float64
	}
}

// onlyOfTrouble are queries that find nothing while all is well.
var onlyOfTrouble = regexp.MustCompile(`malformed\|abandoned|ALERTS|pillion_certificate_problem|pillion_ready\{[^}]*\} == 0\)$`)

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// Prometheus' own engine runs each expression of the dashboard over scrapes of a Pillion that has
// something to do.
func TestNoPanelOfTheDashboardIsEmpty(t *testing.T) {
	t.Parallel()
	var d dashboard
	read(t, filepath.Join(checkout.Chart(), "files", "dashboard.json"), &d)
	n := newNamespace(t, map[string]string{injectAnnotation: "fluent-bit"}, nil)
	injects(t, n, "fluent-bit")
	// Others are about the versions of a template with a canary. Each version gets pods, and refuses some.
	stable := manifest{name: unique("side"), spec: sidecarSpec}
	stable.apply(t)
	canary := manifest{name: stable.name + "-next"}
	canary.forget(t)
	must(t, manifest{stable.name, "\ncanary: {of: NAME, podSelector: {matchLabels: {get: canary}}}" + sidecarSpec}.as(canary.name), "kubectl", "apply", "-f", "-")
	ofVersion := func(version string, round int) {
		t.Helper()
		pod := newPod(fmt.Sprintf("%s-%d", version, round), asking(stable.name))
		pod.Labels = map[string]string{"get": version}
		n.mustCreate(t, pod)
		pod.Annotations[stable.name+".pillion.dev/log-level"] = "loud"
		if _, err := n.create(t, pod); !apierrors.IsForbidden(err) {
			t.Errorf("a pod with a level that there is not: %v", err)
		}
	}
	// Some panels are about running pods, which Pillion looks at some seconds after its start.
	for _, r := range shared.Replicas(ground.Namespace) {
		eventually(t, time.Minute, func() error { return metric(r, "pillion_coverage_last_success_timestamp_seconds ") })
		eventually(t, time.Minute, func() error { return metric(r, "pillion_pods{", canary.name) })
	}
	type oneScrape struct {
		At     int64             `json:"at"`
		Labels map[string]string `json:"labels"`
		Text   string            `json:"text"`
	}
	var ask struct {
		Scrapes          []oneScrape `json:"scrapes"`
		Queries          []string    `json:"queries"`
		Start, End, Step int64
	}
	const step = 15 * time.Second
	const rounds = 6
	began := time.Now().Add(-rounds * step)
	for i := range rounds {
		n.mustCreate(t, newPod(fmt.Sprintf("web-%d", i), nil))
		if _, err := n.create(t, newPod(fmt.Sprintf("bad-%d", i), map[string]string{injectAnnotation: "no-such-template"})); err == nil {
			t.Error("a pod with an unknown template is not refused")
		}
		ofVersion("canary", i)
		ofVersion("stable", i)
		for _, r := range shared.Replicas(ground.Namespace) {
			ask.Scrapes = append(ask.Scrapes, oneScrape{began.Add(time.Duration(i) * step).UnixMilli(),
				map[string]string{"job": "pillion-metrics", "namespace": ground.Namespace, "pod": r.Name, "instance": r.Admin.String()}, scrape(t, r)})
		}
	}
	ask.Start, ask.End, ask.Step = began.UnixMilli(), began.Add((rounds-1)*step).UnixMilli(), step.Milliseconds()
	variables := strings.NewReplacer("$namespace", ".*", "$job", ".*", "$__rate_interval", "1m", "$__range", "90s", "$__interval", "15s")
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			ask.Queries = append(ask.Queries, variables.Replace(q.Expr))
		}
	}
	input, err := json.Marshal(ask)
	expectNoError(t, err)
	out, err := prometheusTool(t, string(input), "evaluate")
	expectNoError(t, err)
	var results []evaluated
	if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != len(ask.Queries) {
		t.Fatalf("%d results for %d queries, %v", len(results), len(ask.Queries), err)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: no title, or another panel's number", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Errorf("panel %q overlaps %q, or the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("panel %q has no query, or no description", p.Title)
		}
		empty := p.Type != "row"
		for _, q := range p.Targets {
			r := results[0]
			results = results[1:]
			points, labelled := 0, !strings.Contains(q.LegendFormat, "{{")
			for _, s := range r.Series {
				points += len(s.Points)
				named := true
				for _, label := range legendLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
					named = named && s.Labels[label[1]] != ""
				}
				labelled = labelled || named
			}
			if r.Error != "" || points == 0 && !onlyOfTrouble.MatchString(q.Expr) || points > 0 && !labelled {
				t.Errorf("panel %q: %s\n%s %d points of %d series, with the labels of the legend %q: %v", p.Title, q.Expr, r.Error, points, len(r.Series), q.LegendFormat, labelled)
			}
			empty = empty && points == 0
		}
		if empty && p.FieldConfig.Defaults.NoValue == "" {
			t.Errorf("panel %q is empty, and does not say what that means", p.Title)
		}
	}
}

// The overview answers whether something is broken: a replica that is down counts as one that is not
// ready, and where nothing is scraped, no panel says that all is well. Panels of canaries have the stable
// version of the same template beside them, and no other. In the file the titles of panels stand for
// their expressions.
func TestTheDashboardTellsWhatIsBrokenFromWhatIsUnknown(t *testing.T) {
	t.Parallel()
	var d dashboard
	read(t, filepath.Join(checkout.Chart(), "files", "dashboard.json"), &d)
	var titles []string
	variables := strings.NewReplacer("$namespace", ".*", "$job", ".*", "$__rate_interval", "5m", "$__range", "5m")
	for _, p := range d.Panels {
		for i, q := range p.Targets {
			title := p.Title
			if len(p.Targets) > 1 {
				title += fmt.Sprintf(" %c", 'A'+i)
			}
			titles = append(titles, "expr: "+title+",", fmt.Sprintf("expr: %q,", variables.Replace(q.Expr)))
		}
	}
	titles = append(titles, "expr: 'The analysis of docs/how-to/canary.md',", fmt.Sprintf("expr: %q,", analysisQuery(t, "t", "t-next")))
	tests, err := os.ReadFile(checkout.Path("e2e", "testdata", "dashboard_test.yaml"))
	expectNoError(t, err)
	file := inFile(t, "dashboard.yaml", strings.NewReplacer(titles...).Replace(string(tests)))
	if _, err := prometheusTool(t, "", "promtool", "test", "rules", file); err != nil {
		t.Error(err)
	}
}

// analysisQuery returns the query of the AnalysisTemplate in docs/how-to/canary.md.
func analysisQuery(t *testing.T, template, canary string) string {
	t.Helper()
	page, err := os.ReadFile(checkout.Path("docs", "how-to", "canary.md"))
	expectNoError(t, err)
	_, block, _ := strings.Cut(string(page), "```yaml\napiVersion: argoproj.io/v1alpha1\n")
	block, _, _ = strings.Cut(block, "```")
	var analysis struct {
		Spec struct {
			Metrics []struct {
				Provider struct{ Prometheus struct{ Query string } }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(block), &analysis); err != nil || len(analysis.Spec.Metrics) != 1 {
		t.Fatalf("the page has no AnalysisTemplate with one metric: %v\n%s", err, block)
	}
	return strings.NewReplacer("{{args.template}}", template, "{{args.canary}}", canary).Replace(analysis.Spec.Metrics[0].Provider.Prometheus.Query)
}
