package charts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
)

// Every template whose memory a team sets has a CPU limit, too: none unless one is asked for.
func TestSidecarsGetACPULimitWhereOneIsAskedFor(t *testing.T) {
	limited := 0
	for _, name := range charts.Names() {
		tmpl := compile(t, name, nil, nil)
		has := map[string]bool{}
		for _, p := range tmpl.Parameters() {
			has[p.Name] = true
		}
		if has["memory"] != has["cpuLimit"] {
			t.Errorf("%s: it has the parameters %v", name, has)
		}
		if !has["cpuLimit"] {
			continue
		}
		limited++
		for annotations, want := range map[string]string{"": "<nil>", "cpu-limit=1500m": "1500m", "cpu-limit=900m,cpu=1": "the CPU limit 900m is below the request 1: "} {
			if strings.Contains(annotations, "cpu=") && !has["cpu"] {
				continue
			}
			all := needed(t, tmpl)
			for pair := range strings.SplitSeq(annotations, ",") {
				key, value, _ := strings.Cut(pair, "=")
				all[name+".pillion.dev/"+key] = value
			}
			delete(all, name+".pillion.dev/")
			r, err := tmpl.Render(t.Context(), templates.Input{Pod: fragmenttest.Decode(t, minimalPod), Namespace: templates.Namespace{Name: "shop", Annotations: all}})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := fmt.Sprint(r.Invalid)
			if containers := r.Fragment.Field("spec", "initContainers").List(); len(containers) > 0 {
				got = fmt.Sprint(containers[len(containers)-1].Field("resources", "limits", "cpu").JSON())
			}
			if !strings.Contains(got, want) {
				t.Errorf("%s with %q: %s, want %s", name, annotations, got, want)
			}
		}
	}
	if limited < 10 {
		t.Errorf("%d templates have a CPU limit", limited)
	}
}
