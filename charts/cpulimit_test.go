package charts_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/templates"
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
		limits := func(more map[string]string) (string, []templates.Invalid) {
			annotations := needed(t, tmpl)
			maps.Copy(annotations, more)
			r, err := tmpl.Render(t.Context(), templates.Input{Pod: decode(t, minimalPod), Namespace: templates.Namespace{Name: "shop", Annotations: annotations}})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(r.Invalid) > 0 {
				return "", r.Invalid
			}
			containers := r.Fragment.Field("spec", "initContainers").List()
			return fmt.Sprint(containers[len(containers)-1].Field("resources", "limits", "cpu").JSON()), r.Invalid
		}
		if got, invalid := limits(nil); got != "<nil>" || len(invalid) > 0 {
			t.Errorf("%s: by default the CPU limit is %s, %v", name, got, invalid)
		}
		if got, invalid := limits(map[string]string{name + ".pillion.dev/cpu-limit": "1500m"}); got != "1500m" || len(invalid) > 0 {
			t.Errorf("%s: the CPU limit is %s, %v; want 1500m", name, got, invalid)
		}
		if !has["cpu"] {
			continue
		}
		_, invalid := limits(map[string]string{name + ".pillion.dev/cpu-limit": "900m", name + ".pillion.dev/cpu": "1"})
		if len(invalid) != 1 || !strings.HasPrefix(invalid[0].Message, "the CPU limit 900m is below the request 1: ") {
			t.Errorf("%s: a limit below the request: %v", name, invalid)
		}
	}
	if limited < 10 {
		t.Errorf("%d templates have a CPU limit", limited)
	}
}
