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
	//lint:ignore SA1019 its successor is for Grafana 13's API; files and ConfigMaps have this model, which older ones read too
	var decoded dashboard.Dashboard
	found := messages("", decoded.UnmarshalJSONStrict(file(t)))
	for _, p := range read(t).Panels {
		// The strict decoding of a panel is lenient here.
		var config dashboard.FieldConfigSource
		found = append(found, messages(fmt.Sprintf("panel %q: ", p.Title), config.UnmarshalJSONStrict(p.FieldConfig))...)
	}
	for _, problem := range found {
		t.Error(problem)
	}
}

// contents is what the tests read of the file itself.
type contents struct {
	Panels []struct {
		Title       string
		FieldConfig json.RawMessage
		Targets     []struct{ Expr, LegendFormat string }
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

var (
	selector  = regexp.MustCompile(`\b(pillion_\w+|process_\w+|go_\w+|up|ALERTS)\b(\{[^}]*\})?`)
	histogram = regexp.MustCompile(`_(bucket|sum|count)$`)
	inQuery   = regexp.MustCompile(`(\w+)[=!]~?"|\b(?:by|group_left) \(([^)]+)\)`)
	inLegend  = regexp.MustCompile(`\{\{(\w+)\}\}`)
	// ofScrapes are labels that the scrape and Prometheus itself give.
	ofScrapes = []string{"job", "namespace", "instance", "pod", "le", "alertname", "alertstate", "severity"}
)

// Two installations may have Services of the same name in two namespaces: what is chosen at the top holds for
// each panel. A query that names something that is not there has an empty panel. The reference of metrics is
// generated from the program, and lists each label of several metrics.
func TestEachQueryNamesWhatIsThereInTheChosenInstallations(t *testing.T) {
	var pages string
	for _, name := range []string{"metrics.md", "replica-metrics.md"} {
		page, err := os.ReadFile("../../docs/reference/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages += string(page)
	}
	for _, p := range read(t).Panels {
		for _, q := range p.Targets {
			selectors := selector.FindAllStringSubmatch(q.Expr, -1)
			if len(selectors) == 0 {
				t.Errorf("panel %q reads no metric: %s", p.Title, q.Expr)
			}
			for _, s := range selectors {
				if !strings.Contains(s[2], `namespace=~"$namespace`) || !strings.Contains(s[2], `job=~"$job`) {
					t.Errorf("panel %q: %s%s does not name $namespace and $job", p.Title, s[1], s[2])
				}
				if name := histogram.ReplaceAllString(s[1], ""); strings.HasPrefix(name, "pillion_") && !strings.Contains(pages, "\n### "+name+"\n") {
					t.Errorf("panel %q: there is no metric %s", p.Title, name)
				}
			}
			for _, found := range append(inQuery.FindAllStringSubmatch(q.Expr, -1), inLegend.FindAllStringSubmatch(q.LegendFormat, -1)...) {
				for label := range strings.SplitSeq(strings.Join(found[1:], ""), ", ") {
					if !slices.Contains(ofScrapes, label) && !strings.Contains(pages, "`"+label+"`") {
						t.Errorf("panel %q: no metric has the label %s", p.Title, label)
					}
				}
			}
		}
	}
}
