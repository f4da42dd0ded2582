package ports_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/ports"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
)

// find merges fragments, called a, b and so on, into a pod, and returns the first clash.
func find(t testing.TB, pod string, fragments ...string) string {
	t.Helper()
	base := fragmenttest.Decode(t, "spec: {"+pod+"}")
	now, writers := base, &merge.Writers{}
	for i, text := range fragments {
		name, f := string(rune('a'+i)), fragmenttest.Parse(t, "spec: {"+text+"}")
		r, err := merge.Merge(t.Context(), merge.State{Base: base, Pod: now, Writers: writers}, f, merge.Template{Name: name})
		if err != nil || len(r.Conflicts) > 0 {
			t.Fatal(err, r.Conflicts)
		}
		if clash := ports.Find(name, f, r.Pod, writers); clash != nil {
			return clash.Error()
		}
		now = r.Pod
		writers.Add(name, r.Writes)
	}
	return ""
}

func TestAPortThatTwoContainersOpenIsAClash(t *testing.T) {
	const (
		pod  = "initContainers: [{name: setup, image: i, ports: [{containerPort: 9}]}], containers: [{name: web, image: w, ports: [{containerPort: 8080, name: http}, {containerPort: 53, protocol: UDP}, {containerPort: 7, hostPort: 7000}]}, {name: twin, image: w, ports: [{containerPort: 7}]}]"
		hint = "; change one of the two, or write $onConflict: Overwrite at the template's port if it is meant to take the port over"
	)
	side := func(fields string) string {
		return "initContainers: [{name: side, image: s, restartPolicy: Always, ports: [" + fields + "]}]"
	}
	for name, c := range map[string]struct {
		fragments []string
		want      string
	}{
		"a port of its own":         {[]string{side("{containerPort: 8081, name: side}")}, ""},
		"the app's port":            {[]string{side("{containerPort: 8080}")}, "template a conflicts at spec.initContainers[name=side].ports[containerPort=8080,protocol=TCP]: container web of the pod has the port 8080/TCP, too, and the containers of a pod share their ports" + hint},
		"another protocol":          {[]string{side("{containerPort: 8080, protocol: UDP}, {containerPort: 53}")}, ""},
		"of an app container":       {[]string{"containers: [{name: side, image: s, ports: [{containerPort: 53, protocol: UDP}]}]"}, "container web of the pod has the port 53/UDP, too"},
		"an init container is over": {[]string{"initContainers: [{name: side, image: s, ports: [{containerPort: 8080}]}]"}, ""},
		"the pod's own is over":     {[]string{side("{containerPort: 9}")}, ""},
		"taken over on purpose":     {[]string{side("{containerPort: 8080, $onConflict: Overwrite}")}, ""},
		"the pod's port, agreed":    {[]string{"containers: [{name: web, ports: [{containerPort: 8080}]}]"}, ""},
		"the later template's":      {[]string{side("{containerPort: 5}"), "containers: [{name: web, ports: [{containerPort: 5}]}]"}, "template b conflicts at spec.containers[name=web].ports[containerPort=5,protocol=TCP]: container side of template a has the port 5/TCP, too"},
		"of two templates, whatever one says": {[]string{side("{containerPort: 5}"), "containers: [{name: other, image: s, ports: [{containerPort: 5, $onConflict: Overwrite}]}]"},
			"template b conflicts at spec.containers[name=other].ports[containerPort=5,protocol=TCP]: container side of template a has the port 5/TCP, too"},
		"of one template":                {[]string{"initContainers: [{name: s, image: s, restartPolicy: Always, ports: [{containerPort: 5}]}], containers: [{name: u, image: s, ports: [{containerPort: 5}]}]"}, "of template a has the port 5/TCP, too"},
		"two templates with one sidecar": {[]string{side("{containerPort: 5}"), side("{containerPort: 5}")}, ""},
		"what the pod alone does":        {[]string{side("{containerPort: 10}")}, ""},
	} {
		if got := find(t, pod, c.fragments...); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// A clash is always found: compared with a look at each pair.
func TestEveryClashOfPortsIsFound(t *testing.T) {
	found := 0
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(label string) string {
			var all []string
			for i := range rapid.IntRange(0, 2).Draw(rt, label) {
				all = append(all, fmt.Sprintf("{containerPort: %d}", 10*(i+1)+rapid.IntRange(0, 3).Draw(rt, label+" port")))
			}
			return strings.Join(all, ", ")
		}
		own, side, more := draw("own"), draw("side"), draw("more")
		got := find(t, "containers: [{name: web, image: w, ports: ["+own+"]}]", "initContainers: [{name: side, image: s, restartPolicy: Always, ports: ["+side+"]}]", "containers: [{name: web, ports: ["+more+"]}]")
		clashes := false
		for p := range strings.SplitSeq(side, ", ") {
			clashes = clashes || p != "" && (strings.Contains(own, p) || strings.Contains(more, p))
		}
		if clashes != (got != "") {
			rt.Fatalf("own [%s], sidecar [%s], added to own [%s]: %q", own, side, more, got)
		}
		if clashes {
			found++
		}
	})
	if found == 0 {
		t.Error("no generated pod had a clash")
	}
}
