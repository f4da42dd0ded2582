package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// prometheus is the folder of promtool, which the first test that asks builds.
var prometheus = sync.OnceValues(func() (string, error) {
	return ground.Prometheus(context.Background(), checkout, os.Stderr)
})

// promtool runs promtool, and returns what it says.
func promtool(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	dir, err := prometheus()
	expectNoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "promtool"), args...)
	cmd.Stdin = strings.NewReader(input)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("promtool %s: %w\n%s%s", strings.Join(args, " "), err, &out, &said)
	}
	return out.String() + said.String(), err
}

// Each alert fires where it should, and not where it should not, and links its section of the runbook.
func TestEveryAlertFiresWhereItShouldAndNotWhereItShouldNot(t *testing.T) {
	t.Parallel()
	file, tests := filepath.Join(checkout.Chart(), "files", "alerts.yaml"), checkout.Path("e2e", "testdata", "alerts_test.yaml")
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", file}, {"test", "rules", tests}} {
		wantNoError(t, errorOf(promtool(t, "", args...)))
	}
	var rules monitoringv1.PrometheusRuleSpec
	read(t, file, &rules)
	alerts := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts++
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

// dashboard is what a test reads of a Grafana dashboard.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
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
	rules := "groups: [{name: panels, rules: ["
	variables := strings.NewReplacer("$namespace", ".*", "$job", ".*", "$__rate_interval", "5m", "$__range", "5m")
	for _, p := range d.Panels {
		for i, q := range p.Targets {
			title := p.Title
			if len(p.Targets) > 1 {
				title += fmt.Sprintf(" %c", 'A'+i)
			}
			rules += fmt.Sprintf("{record: panel, labels: {of: %q}, expr: %q},", title, variables.Replace(q.Expr))
			titles = append(titles, "expr: "+title+",", fmt.Sprintf("expr: %q,", variables.Replace(q.Expr)))
		}
	}
	wantNoError(t, errorOf(promtool(t, "", "check", "rules", inFile(t, "rules.yaml", rules+"]}]"))))
	titles = append(titles, "expr: 'The analysis of docs/how-to/canary.md',", fmt.Sprintf("expr: %q,", analysisQuery(t, "t", "t-next")))
	tests, err := os.ReadFile(checkout.Path("e2e", "testdata", "dashboard_test.yaml"))
	expectNoError(t, err)
	file := inFile(t, "dashboard.yaml", strings.NewReplacer(titles...).Replace(string(tests)))
	wantNoError(t, errorOf(promtool(t, "", "test", "rules", file)))
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
