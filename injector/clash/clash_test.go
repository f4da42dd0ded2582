package clash_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/injector/clash"
	"github.com/pillion-dev/pillion/injector/merge"
)

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// find merges fragments, called a, b and so on, into a pod, one after the other. It returns the
// first clash as text.
func find(t testing.TB, pod string, fragments ...string) string {
	t.Helper()
	author := parse(t, "spec: {"+pod+"}")
	wanted := author
	for i, text := range fragments {
		f := merge.Fragment{Template: string(rune('a' + i)), Object: parse(t, "spec: {"+text+"}")}
		plan, err := merge.Merge(t.Context(), wanted, []merge.Fragment{f}, "pillion.dev/status")
		if err != nil {
			t.Fatal(err)
		}
		wanted = plan.Pod
		if found := clash.Find(author, wanted, f); found != nil {
			return found.Error()
		}
	}
	return ""
}

func TestAPortThatTwoContainersOpenIsAClash(t *testing.T) {
	const (
		pod   = "initContainers: [{name: setup, image: i, ports: [{containerPort: 9}]}], containers: [{name: web, image: w, ports: [{containerPort: 8080, name: http}, {containerPort: 53, protocol: UDP}]}]"
		share = ", too, and the containers of a pod share their ports; change one of the two"
		means = ", or write $onConflict: Overwrite at the template's port if it is meant to take the port over"
	)
	side := func(ports string) string {
		return "initContainers: [{name: side, image: s, restartPolicy: Always, ports: [" + ports + "]}]"
	}
	web := func(ports string) string { return "containers: [{name: web, ports: [" + ports + "]}]" }
	for name, c := range map[string]struct {
		fragments []string
		want      string
	}{
		"no ports":                  {[]string{"initContainers: [{name: side, image: s, restartPolicy: Always, args: [a]}]"}, ""},
		"a port of its own":         {[]string{side("{containerPort: 8081, name: http}")}, ""},
		"the app's port":            {[]string{side("{containerPort: 8080}")}, "template a conflicts at spec.initContainers[name=side].ports[containerPort=8080,protocol=TCP]: container web of the pod has the port 8080/TCP" + share + means},
		"another protocol":          {[]string{side("{containerPort: 8080, protocol: UDP}, {containerPort: 53}")}, ""},
		"of an app container":       {[]string{"containers: [{name: side, image: s, ports: [{containerPort: 53, protocol: UDP}]}]"}, "template a conflicts at spec.containers[name=side].ports[containerPort=53,protocol=UDP]: container web of the pod has the port 53/UDP" + share + means},
		"an init container is over": {[]string{"initContainers: [{name: side, image: s, ports: [{containerPort: 8080}]}]"}, ""},
		"for an init container":     {[]string{"initContainers: [{name: setup, ports: [{containerPort: 8080}]}]"}, ""},
		"the pod's own is over":     {[]string{side("{containerPort: 9}")}, ""},
		"taken over on purpose":     {[]string{side("{containerPort: 8080, $onConflict: Overwrite}")}, ""},
		"the pod's port, agreed":    {[]string{web("{containerPort: 8080}")}, ""},
		"a port for the app":        {[]string{side("{containerPort: 5}"), web("{containerPort: 5}")}, "template b conflicts at spec.containers[name=web].ports[containerPort=5,protocol=TCP]: container side of another template has the port 5/TCP" + share},
		"two templates, whatever one says": {[]string{side("{containerPort: 5}"), "containers: [{name: other, image: s, ports: [{containerPort: 5, $onConflict: Overwrite}]}]"},
			"template b conflicts at spec.containers[name=other].ports[containerPort=5,protocol=TCP]: container side of another template has the port 5/TCP" + share},
		"two templates with one sidecar": {[]string{side("{containerPort: 5}"), side("{containerPort: 5}")}, ""},
		"what the API server judges":     {[]string{side("{containerPort: 5, hostPort: 7000, name: http}, {containerPort: 6, hostPort: 7000}")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := find(t, pod, c.fragments...); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Two ports of the author's are between the author and the API server.
func TestAClashOfThePodsOwnIsNone(t *testing.T) {
	const pod = "containers: [{name: a, image: i, ports: [{containerPort: 1}]}, {name: b, image: i, ports: [{containerPort: 1}]}]"
	for _, fragment := range []string{"containers: [{name: s, image: s, ports: [{containerPort: 9}]}]", "containers: [{name: a, ports: [{containerPort: 1}]}]"} {
		if got := find(t, pod, fragment); got != "" {
			t.Errorf("%s: %s", fragment, got)
		}
	}
}

// A clash is found exactly where a template's port is one of another container: compared with a look
// at each pair.
func TestEveryClashOfPortsIsFound(t *testing.T) {
	found := 0
	rapid.Check(t, func(rt *rapid.T) {
		ports := func(label string) []string {
			var all []string
			for i := range rapid.IntRange(0, 2).Draw(rt, label) {
				all = append(all, fmt.Sprintf("{containerPort: %d}", 10*(i+1)+rapid.IntRange(0, 3).Draw(rt, label+" port")))
			}
			return all
		}
		list := func(ports []string) string { return "ports: [" + strings.Join(ports, ", ") + "]" }
		own, other, side, more := ports("own"), ports("other"), ports("side"), ports("more")
		got := find(t, "containers: [{name: web, image: w, "+list(own)+"}, {name: other, image: o, "+list(other)+"}]",
			"initContainers: [{name: side, image: s, restartPolicy: Always, "+list(side)+"}]", "containers: [{name: web, "+list(more)+"}]")
		clashes := slices.ContainsFunc(side, func(p string) bool { return slices.Contains(slices.Concat(own, other, more), p) }) ||
			slices.ContainsFunc(more, func(p string) bool { return slices.Contains(other, p) && !slices.Contains(own, p) })
		if clashes != (got != "") {
			rt.Fatalf("own %s and %s, sidecar %s, added to own %s: %q", own, other, side, more, got)
		}
		if clashes {
			found++
		}
	})
	if found == 0 {
		t.Error("no generated pod had a clash")
	}
}
