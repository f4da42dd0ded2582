package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// panels are the kinds of panels that the dashboard has. The SDK checks the options of those that
// are registered, and lets those of others pass.
var panels = []variants.PanelcfgConfig{heatmap.VariantConfig(), stat.VariantConfig(), statetimeline.VariantConfig(), table.VariantConfig(), timeseries.VariantConfig()}

func init() {
	runtime := cog.NewRuntime()
	for _, p := range panels {
		runtime.RegisterPanelcfgVariant(p)
	}
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
}

func file(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../charts/pillion/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// problems are what Grafana's types have against a dashboard: fields that they do not have, fields
// of another type, required ones that are missing.
func problems(data []byte) []string {
	var found []string
	//lint:ignore SA1019 its successor is for Grafana 13's API; files and ConfigMaps have this model, which older ones read too
	var decoded dashboard.Dashboard
	found = append(found, messages("", decoded.UnmarshalJSONStrict(data))...)
	var raw struct {
		Panels []struct {
			Title, Type string
			FieldConfig json.RawMessage
			Targets     []struct{ Datasource struct{ Type string } }
		}
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return append(found, err.Error())
	}
	for _, p := range raw.Panels {
		if p.Type != "row" && !slices.ContainsFunc(panels, func(c variants.PanelcfgConfig) bool { return c.Identifier == p.Type }) {
			found = append(found, fmt.Sprintf("panel %q: nothing checks the options of a %s", p.Title, p.Type))
		}
		for _, target := range p.Targets {
			if target.Datasource.Type != "prometheus" {
				found = append(found, fmt.Sprintf("panel %q: nothing checks a query of %q", p.Title, target.Datasource.Type))
			}
		}
		// The strict decoding of a panel is lenient here.
		var config dashboard.FieldConfigSource
		found = append(found, messages(fmt.Sprintf("panel %q: ", p.Title), config.UnmarshalJSONStrict(p.FieldConfig))...)
	}
	return found
}

// messages are those of an error of the SDK. Its error is never nil: without a message, nothing is wrong.
func messages(prefix string, err error) []string {
	var all cog.BuildErrors
	if err == nil || errors.As(err, &all) && len(all) == 0 {
		return nil
	}
	var text []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text = append(text, prefix+line)
	}
	return text
}

func TestGrafanaKnowsEachFieldOfTheDashboard(t *testing.T) {
	for _, p := range problems(file(t)) {
		t.Error(p)
	}
}

// contents is what the other tests read.
type contents struct {
	Templating struct{ List []struct{ Name string } }
	Panels     []struct {
		Type, Title, Description string
		Links                    []struct{ Title, URL string }
		Targets                  []struct{ Expr, LegendFormat string }
	}
}

func read(t *testing.T) contents {
	t.Helper()
	var d contents
	if err := json.Unmarshal(file(t), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var selector = regexp.MustCompile(`\b(pillion_\w+|process_\w+|go_\w+|up|ALERTS)\b(\{[^}]*\})?`)

// Two installations may have Services of the same name in two namespaces. Whatever is chosen at the
// top holds for each panel.
func TestEachQueryKeepsToTheChosenInstallations(t *testing.T) {
	d := read(t)
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	if want := []string{"datasource", "namespace", "job"}; !slices.Equal(names, want) {
		t.Errorf("the variables are %q, want %q", names, want)
	}
	queries := 0
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			queries++
			found := selector.FindAllStringSubmatch(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("panel %q reads no metric: %s", p.Title, q.Expr)
			}
			for _, s := range found {
				for _, variable := range []string{"namespace", "job"} {
					if !strings.Contains(s[2], fmt.Sprintf(`%s=~"$%s`, variable, variable)) {
						t.Errorf("panel %q: %s%s does not name $%s", p.Title, s[1], s[2], variable)
					}
				}
			}
		}
	}
	if queries == 0 {
		t.Error("there is no query")
	}
}

var (
	quoted    = regexp.MustCompile("`([^`]+)`")
	matcher   = regexp.MustCompile(`(\w+)[=!]~?"([^"]*)"`)
	grouped   = regexp.MustCompile(`\b(?:by|group_left) \(([^)]+)\)`)
	inLegend  = regexp.MustCompile(`\{\{(\w+)\}\}`)
	histogram = regexp.MustCompile(`_(bucket|sum|count)$`)
	// ofScrapes are labels that the scrape and Prometheus itself give.
	ofScrapes = []string{"job", "namespace", "instance", "pod", "le", "alertname", "alertstate", "severity"}
)

// A query that names something else has an empty panel. The reference of metrics is generated from the program,
// and has the labels of each metric with their values.
func TestEachQueryNamesMetricsLabelsAndValuesThatThereAre(t *testing.T) {
	sections := map[string]string{}
	row := func(text, label string) string {
		return regexp.MustCompile("(?m)^- `" + label + "`:.*$").FindString(text)
	}
	for _, name := range []string{"metrics.md", "replica-metrics.md"} {
		page, err := os.ReadFile("../../docs/reference/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, shared, _ := strings.Cut(string(page), "\n## Labels of several metrics\n")
		for _, section := range strings.Split(string(page), "\n### ")[1:] {
			section, _, _ = strings.Cut(section, "\n## ")
			name, text, _ := strings.Cut(section, "\n")
			_, labels, _ := strings.Cut(text, "\nLabels: ")
			labels, _, _ = strings.Cut(labels, "\n")
			for _, label := range quoted.FindAllStringSubmatch(labels, -1) {
				text += "\n" + row(shared, label[1])
			}
			sections[name] = text
		}
	}
	for _, p := range read(t).Panels {
		for _, q := range p.Targets {
			of := ""
			for _, s := range selector.FindAllStringSubmatch(q.Expr, -1) {
				text, there := sections[histogram.ReplaceAllString(s[1], "")]
				if of += text; !there && strings.HasPrefix(s[1], "pillion_") {
					t.Errorf("panel %q: there is no metric %s", p.Title, s[1])
				}
				for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
					values := row(text, m[1])
					if values == "" && !slices.Contains(ofScrapes, m[1]) {
						t.Errorf("panel %q: %s has no label %s", p.Title, s[1], m[1])
					}
					for value := range strings.SplitSeq(m[2], "|") {
						if strings.Count(values, "`") > 2 && regexp.MustCompile(`^\w+$`).MatchString(value) && !strings.Contains(values, "`"+value+"`") {
							t.Errorf("panel %q: the label %s of %s is never %s", p.Title, m[1], s[1], value)
						}
					}
				}
			}
			labels := inLegend.FindAllStringSubmatch(q.LegendFormat, -1)
			for _, g := range grouped.FindAllStringSubmatch(q.Expr, -1) {
				for label := range strings.SplitSeq(g[1], ", ") {
					labels = append(labels, []string{"", label})
				}
			}
			for _, label := range labels {
				if !slices.Contains(ofScrapes, label[1]) && row(of, label[1]) == "" {
					t.Errorf("panel %q: no metric of it has the label %s: %s", p.Title, label[1], q.Expr)
				}
			}
		}
	}
}
