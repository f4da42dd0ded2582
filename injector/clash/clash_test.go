package clash_test

import (
	"encoding/json"
	"fmt"
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

// find merges fragments, called a, b and so on, into a pod.
func find(t testing.TB, pod string, fragments ...string) (string, []string) {
	t.Helper()
	var all []merge.Fragment
	for i, f := range fragments {
		all = append(all, merge.Fragment{Template: string(rune('a' + i)), Object: parse(t, "spec: {"+f+"}")})
	}
	plan, err := merge.Merge(t.Context(), parse(t, "spec: {"+pod+"}"), all, "pillion.dev/status")
	if err != nil {
		t.Fatal(err)
	}
	found, warnings := clash.Find(plan)
	if found == nil {
		return "", warnings
	}
	return found.Error(), warnings
}

func TestPortsAndMountsThatCannotStandBesideEachOther(t *testing.T) {
	const (
		pod    = "initContainers: [{name: setup, image: i, ports: [{containerPort: 9}]}], containers: [{name: web, image: w, ports: [{containerPort: 8080, name: http}, {containerPort: 53, protocol: UDP}, {containerPort: 7, hostPort: 7000}], volumeMounts: [{name: v, mountPath: /data}], volumeDevices: [{name: d, devicePath: /dev/x}]}]"
		change = "; change one of the two"
		means  = ", or write $onConflict: Overwrite at the template's port if it is meant to take the port over"
	)
	side := func(fields string) string {
		return "initContainers: [{name: side, image: s, restartPolicy: Always, " + fields + "}]"
	}
	web := func(fields string) string { return "containers: [{name: web, " + fields + "}]" }
	const at = "template a conflicts at spec.initContainers[name=side].ports[containerPort=%s]: "
	for name, c := range map[string]struct {
		fragments []string
		want      string
		warning   string
	}{
		"nothing of the kind":       {[]string{side("args: [a]")}, "", ""},
		"a port of its own":         {[]string{side("ports: [{containerPort: 8081, name: side}]")}, "", ""},
		"the app's port":            {[]string{side("ports: [{containerPort: 8080}]")}, fmt.Sprintf(at, "8080,protocol=TCP") + "container web of the pod has the port 8080/TCP, too, and the containers of a pod share their ports" + change + means, ""},
		"another protocol":          {[]string{side("ports: [{containerPort: 8080, protocol: UDP}, {containerPort: 53}]")}, "", ""},
		"of an app container":       {[]string{"containers: [{name: side, image: s, ports: [{containerPort: 53, protocol: UDP}]}]"}, "template a conflicts at spec.containers[name=side].ports[containerPort=53,protocol=UDP]: container web of the pod has the port 53/UDP, too, and the containers of a pod share their ports" + change + means, ""},
		"an init container is over": {[]string{"initContainers: [{name: side, image: s, ports: [{containerPort: 8080}]}]"}, "", ""},
		"the pod's own is over":     {[]string{side("ports: [{containerPort: 9}]")}, "", ""},
		"taken over on purpose":     {[]string{side("ports: [{containerPort: 8080, $onConflict: Overwrite}]")}, "", ""},
		"the pod's port, agreed":    {[]string{web("ports: [{containerPort: 8080}]")}, "", ""},
		"a port for the app":        {[]string{side("ports: [{containerPort: 5}]"), web("ports: [{containerPort: 5}]")}, "template a conflicts at spec.initContainers[name=side].ports[containerPort=5,protocol=TCP]: container web of template b has the port 5/TCP, too, and the containers of a pod share their ports" + change + means, ""},
		"two templates, whatever one says": {[]string{side("ports: [{containerPort: 5}]"), "containers: [{name: other, image: s, ports: [{containerPort: 5, $onConflict: Overwrite}]}]"},
			"template a conflicts at spec.initContainers[name=side].ports[containerPort=5,protocol=TCP]: container other of template b has the port 5/TCP, too, and the containers of a pod share their ports" + change + means, ""},
		"two templates with one sidecar": {[]string{side("ports: [{containerPort: 5}]"), side("ports: [{containerPort: 5}]")}, "", ""},
		"a host port":                    {[]string{side("ports: [{containerPort: 5, hostPort: 7000}]")}, fmt.Sprintf(at, "5,protocol=TCP") + "container web of the pod has the host port 7000/TCP, too, and a node can use it only once" + change, ""},
		"a host port of one IP, where the pod has it of all": {[]string{side("ports: [{containerPort: 5, hostPort: 7000, hostIP: 10.0.0.1, $onConflict: Overwrite}]")}, fmt.Sprintf(at, "5,protocol=TCP") + "container web of the pod has the host port 7000/TCP, too, and a node can use it only once" + change, ""},
		"a name twice in one container":                      {[]string{web("ports: [{containerPort: 5, name: http}]")}, `template a conflicts at spec.containers[name=web].ports[containerPort=5,protocol=TCP]: another port of container web of the pod has the name "http", too, and names of ports must be unique` + change, ""},
		"a name that the pod's Service has":                  {[]string{side("ports: [{containerPort: 5, name: http}]")}, "", `template a: the port name "http" of container side is one of container web, too, and a Service that names it reaches the latter`},
		"the same on purpose":                                {[]string{side("ports: [{containerPort: 5, name: http, $onConflict: KeepPod}]")}, "", ""},
		"a name in front of the pod's": {[]string{"containers: [{name: side, image: s, $position: First, ports: [{containerPort: 5, name: http}]}]"},
			`template a conflicts at spec.containers[name=side].ports[containerPort=5,protocol=TCP]: a port of container web of the pod has the name "http", too, and a Service that names it would reach this one instead` + change + means, ""},
		"a name for a port of the pod's":         {[]string{web("ports: [{containerPort: 53, protocol: UDP, name: http}]")}, `template a conflicts at spec.containers[name=web].ports[containerPort=53,protocol=UDP]: another port of container web of the pod has the name "http", too, and names of ports must be unique` + change, ""},
		"the app's directory, written otherwise": {[]string{web("volumeMounts: [{name: v, mountPath: /data/}]")}, `template a conflicts at spec.containers[name=web].volumeMounts[mountPath=/data/]: container web of the pod has something at "/data", too, which would hide it or be hidden` + change, ""},
		"the same on purpose, a mount":           {[]string{web("volumeMounts: [{name: v, mountPath: /data/, $onConflict: Overwrite}]")}, "", ""},
		"a device's path":                        {[]string{web("volumeMounts: [{name: v, mountPath: /dev/x}]")}, `template a conflicts at spec.containers[name=web].volumeMounts[mountPath=/dev/x]: container web of the pod has something at "/dev/x", too, which would hide it or be hidden` + change, ""},
		"a directory in the app's":               {[]string{web("volumeMounts: [{name: v, mountPath: /data/logs}]")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings := find(t, pod, c.fragments...)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if text := strings.Join(warnings, "\n"); text != c.warning {
				t.Errorf("warnings %q, want %q", text, c.warning)
			}
		})
	}
}

// What the pod alone does is between its author and the API server.
func TestAClashOfThePodsOwnIsNone(t *testing.T) {
	const pod = "containers: [{name: a, image: i, ports: [{containerPort: 1, hostPort: 2, name: x}, {containerPort: 2, hostPort: 2, name: x}], volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a/}]}, {name: b, image: i, ports: [{containerPort: 1, hostPort: 2, name: x}]}]"
	for _, fragment := range []string{"containers: [{name: s, image: s, ports: [{containerPort: 9}]}]", "containers: [{name: a, volumeMounts: [{name: v, mountPath: /b}]}]"} {
		if got, warnings := find(t, pod, fragment); got != "" || len(warnings) > 0 {
			t.Errorf("%s: %s, %q", fragment, got, warnings)
		}
	}
}

// The same pod without templates' ports has no clash, and a clash is always found: compared
// with a look at each pair.
func TestEveryClashOfPortsIsFound(t *testing.T) {
	found := 0
	rapid.Check(t, func(rt *rapid.T) {
		ports := func(label string) string {
			var all []string
			for i := range rapid.IntRange(0, 2).Draw(rt, label) {
				all = append(all, fmt.Sprintf("{containerPort: %d}", 10*(i+1)+rapid.IntRange(0, 3).Draw(rt, label+" port")))
			}
			return strings.Join(all, ", ")
		}
		own, side, more := ports("own"), ports("side"), ports("more")
		got, _ := find(t, "containers: [{name: web, image: w, ports: ["+own+"]}]",
			"initContainers: [{name: side, image: s, restartPolicy: Always, ports: ["+side+"]}]", "containers: [{name: web, ports: ["+more+"]}]")
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
