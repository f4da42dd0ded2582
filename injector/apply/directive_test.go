package apply

import (
	"errors"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/record"
)

// mesh is a template whose sidecar lists the probes that the mesh answers.
func mesh(t testing.TB, probes string) Fragment {
	return fragment(t, "mesh", "spec: {initContainers: [{name: proxy, image: 'proxy:1', restartPolicy: Always, args: [run], ports: [{containerPort: 15000, name: admin}], resources: {limits: {cpu: 1}},"+
		"livenessProbe: {httpGet: {port: 15000}}, env: [{name: MODE, value: x}, {name: PROBES, value: '"+probes+"'}]}]}")
}

func proxyEnv(t testing.TB, pod map[string]any) string {
	return text(at(t, pod, "spec", "initContainers", "0", "env"))
}

func TestANewValueIsWrittenWhereNobodyChangedTheOldOne(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
	injected := normal(lawful(t, pod, mesh(t, "web")).Pod)
	proxy := at(t, injected, "spec", "initContainers", "0").(map[string]any)
	proxy["image"], proxy["terminationMessagePolicy"], proxy["imagePullPolicy"] = "mirror/proxy:1", "File", "IfNotPresent"
	proxy["volumeMounts"] = []any{map[string]any{"name": "token", "mountPath": "/token"}}
	proxy["ports"].([]any)[0].(map[string]any)["protocol"] = "TCP"
	r := lawfulAfter(t, injected, pod, mesh(t, "web later"))
	if got := proxyEnv(t, r.Pod); got != `[{"name":"MODE","value":"x"},{"name":"PROBES","value":"web later"}]` {
		t.Errorf("env %s", got)
	}
	proxy = at(t, r.Pod, "spec", "initContainers", "0").(map[string]any)
	if proxy["image"] != "mirror/proxy:1" || text(proxy["volumeMounts"]) != `[{"mountPath":"/token","name":"token"}]` || len(r.Warnings) > 0 {
		t.Errorf("%s, warnings %q", text(proxy), r.Warnings)
	}
	var paths []string
	for _, e := range r.Operations {
		paths = append(paths, e.Op()+" "+e.Pointer())
	}
	if got := strings.Join(paths, ", "); got != "replace /spec/initContainers/0/env/1, replace /metadata/annotations/pillion.dev~1status" {
		t.Errorf("operations %s", got)
	}
}

func TestAValueThatSomebodyChangedInASidecarStaysWithAWarning(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
	injected := normal(lawful(t, pod, mesh(t, "web")).Pod)
	at(t, injected, "spec", "initContainers", "0", "env", "1").(map[string]any)["value"] = "somebody's"
	r := lawfulAfter(t, injected, pod, mesh(t, "web later"))
	if len(r.Operations) > 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "env[name=PROBES]: another webhook or a user changed it") {
		t.Fatalf("operations %s, warnings %q", text(r.Operations), r.Warnings)
	}
	if r := mustMerge(t, injected, mesh(t, "web")); len(r.Operations)+len(r.Warnings) > 0 {
		t.Fatalf("the template sets the same value as before, and yet: operations %s, warnings %q", text(r.Operations), r.Warnings)
	}
}

func TestAnItemThatSomebodyTookOutOfASidecarStaysOutAndANewOneComesIn(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
	injected := normal(lawful(t, pod, mesh(t, "web")).Pod)
	proxy := at(t, injected, "spec", "initContainers", "0").(map[string]any)
	proxy["env"] = proxy["env"].([]any)[1:]
	delete(proxy, "livenessProbe")
	newer := fragment(t, "mesh", "spec: {initContainers: [{name: proxy, image: 'proxy:1', restartPolicy: Always, args: [run, fast], workingDir: /w, ports: [{containerPort: 15000, name: admin}, {containerPort: 15001}],"+
		"resources: {limits: {cpu: 2, memory: 1Gi}}, livenessProbe: {httpGet: {port: 15000}}, env: [{name: MODE, value: x}, {name: PROBES, value: web}, {name: NEW, value: m}]}]}")
	r := lawfulAfter(t, injected, pod, newer)
	want := `{"args":["run","fast"],"env":[{"name":"PROBES","value":"web"},{"name":"NEW","value":"m"}],"image":"proxy:1","name":"proxy",` +
		`"ports":[{"containerPort":15000,"name":"admin"},{"containerPort":15001}],"resources":{"limits":{"cpu":2,"memory":"1Gi"}},"restartPolicy":"Always","workingDir":"/w"}`
	if got := text(at(t, r.Pod, "spec", "initContainers", "0")); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestNeighboursAreFoundInEveryKeyedList(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x, env: [{name: A}, {name: B}], volumeMounts: [{mountPath: /a, name: v}, {mountPath: /b, name: v}], ports: [{containerPort: 80}, {containerPort: 81}]}]}")
	f := fragment(t, "t", "spec: {initContainers: [{name: s, image: x, env: [{name: B, $position: {after: A}}, {name: A}]}], containers: [{name: web, env: [{name: X, $position: {before: B}}],"+
		"volumeMounts: [{mountPath: /x, name: v, $position: {before: /b}}], ports: [{containerPort: 99, $position: {after: '80'}}]}]}")
	r := lawful(t, pod, f)
	web := at(t, r.Pod, "spec", "containers", "0").(map[string]any)
	if got := names(t, web["env"]); got != "A X B" {
		t.Errorf("env %s", got)
	}
	if got := text(at(t, web, "volumeMounts", "1", "mountPath")) + text(at(t, web, "ports", "1", "containerPort")); got != `"/x"99` {
		t.Errorf("mounts %s, ports %s", text(web["volumeMounts"]), text(web["ports"]))
	}
	if got := names(t, at(t, r.Pod, "spec", "initContainers", "0", "env")); got != "A B" {
		t.Errorf("the sidecar's env %s", got)
	}
}

func TestACycleOfPositionsNamesTheTemplates(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
	_, err := mergeInto(t, pod, fragment(t, "a", "spec: {initContainers: [{name: x, image: x, $position: {before: q}}]}"),
		fragment(t, "b", "spec: {initContainers: [{name: q, image: x, $position: {before: z}}]}"),
		fragment(t, "c", "spec: {initContainers: [{name: z, image: x, $position: {before: x}}]}"))
	var fault *FragmentError
	if !errors.Is(err, ErrPositions) || !errors.As(err, &fault) || fault.Template != "c" {
		t.Fatalf("error %v", err)
	}
	want := "merging template c: at spec.initContainers[name=z]: $position makes a cycle: z stands before x (template c), x stands before q (template a), q stands before z (template b)"
	if err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
}

func TestPatchAndUnsetTakeAwayAndGiveBack(t *testing.T) {
	const web = "metadata: {labels: {app: web, old: x}}\nspec: {runtimeClassName: gvisor, nodeSelector: {disk: ssd}, volumes: [{name: v, emptyDir: {}}, {name: w, emptyDir: {}}], containers: [" +
		"{name: web, image: 'nginx:1', securityContext: {privileged: true, runAsUser: 0}, livenessProbe: {httpGet: {port: 80, path: /a}, periodSeconds: 3}," +
		"env: [{name: A, value: x}, {name: B, value: q}, {name: A, value: z}], args: [a]}, {name: debug, image: d}]}"
	extend := func(fields string) string { return "spec: {containers: [{name: web, " + fields + "}]}" }
	container := func(fields ...string) []string { return append([]string{"spec", "containers", "0"}, fields...) }
	for name, c := range map[string]struct {
		fragment string
		path     []string
		want     string
	}{
		"a list's item":             {extend("env: [{name: B, $patch: delete}]"), container("env"), `[{"name":"A","value":"x"},{"name":"A","value":"z"}]`},
		"all items of a key":        {extend("env: [{name: A, $patch: delete}]"), container("env"), `[{"name":"B","value":"q"}]`},
		"an item that is not there": {extend("env: [{name: C, $patch: delete}, {name: D, value: d}]"), container("env", "3"), `{"name":"D","value":"d"}`},
		"an item replaced":          {extend("env: [{name: B, $patch: replace, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]"), container("env", "1"), `{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`},
		"a whole list replaced":     {extend("env: [{$patch: replace}, {name: ONLY, value: x}]"), container("env"), `[{"name":"ONLY","value":"x"}]`},
		"a list emptied":            {extend("env: [{$patch: replace}]"), container("env"), `[]`},
		"a field unset":             {"spec: {$unset: [runtimeClassName]}", []string{"spec", "runtimeClassName"}, "null"},
		"an object deleted":         {extend("securityContext: {$patch: delete}"), container("securityContext"), "null"},
		"an object replaced":        {extend("securityContext: {$patch: replace, runAsNonRoot: true}"), container("securityContext"), `{"runAsNonRoot":true}`},
		"the other handler":         {extend("livenessProbe: {$unset: [httpGet], exec: {command: [ok]}}"), container("livenessProbe"), `{"exec":{"command":["ok"]},"periodSeconds":3}`},
		"a handler deleted":         {extend("livenessProbe: {httpGet: {$patch: delete}, exec: {command: [ok]}}"), container("livenessProbe"), `{"exec":{"command":["ok"]},"periodSeconds":3}`},
		"a label":                   {"metadata: {labels: {$unset: [old]}}", []string{"metadata", "labels"}, `{"app":"web","pillion.dev/injected":"true","t.pillion.dev/hash":"v1"}`},
		"a volume":                  {"spec: {volumes: [{name: v, $patch: delete}]}", []string{"spec", "volumes"}, `[{"emptyDir":{},"name":"w"}]`},
		"a container":               {"spec: {containers: [{name: debug, $patch: delete}]}", []string{"spec", "containers", "1"}, ""},
		"a container for another":   {"spec: {containers: [{name: debug, $patch: delete}], initContainers: [{name: debug, image: x}]}", []string{"spec", "initContainers", "0", "name"}, `"debug"`},
		"a container replaced":      {"spec: {containers: [{name: debug, $patch: replace, image: m}]}", []string{"spec", "containers", "1"}, `{"image":"m","name":"debug"}`},
		"what is not there":         {extend("lifecycle: {$unset: [preStop]}, readinessProbe: {$patch: delete}, startupProbe: {exec: {$patch: delete}}"), container("lifecycle"), "null"},
		"kept, when told so":        {extend("env: [{name: B, $patch: delete, $onConflict: KeepPod}]"), container("env", "1"), `{"name":"B","value":"q"}`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := parse(t, web)
			r := lawful(t, pod, fragment(t, "t", c.fragment))
			if c.want == "" {
				if got := names(t, at(t, r.Pod, "spec", "containers")); got != "web" {
					t.Errorf("containers %s", got)
				}
				return
			}
			if got := text(at(t, r.Pod, c.path...)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	t.Run("refused, when told so", func(t *testing.T) {
		_, err := mergeInto(t, parse(t, web), fragment(t, "t", extend("$onConflict: Deny, securityContext: {$unset: [privileged]}")))
		want := "template t conflicts at spec.containers[name=web].securityContext.privileged: the pod has true, the template sets nothing there"
		if err == nil || err.Error() != want {
			t.Fatalf("got  %v\nwant %s", err, want)
		}
	})
}

func TestADeletedItemThatSomebodyPutBackStays(t *testing.T) {
	pod := parse(t, "spec: {runtimeClassName: gvisor, containers: [{name: web, image: x, env: [{name: A, value: x}]}]}")
	f := fragment(t, "t", "spec: {$unset: [runtimeClassName], containers: [{name: web, env: [{name: A, $patch: delete}, {name: B}]}]}")
	injected := normal(lawful(t, pod, f).Pod)
	spec := injected["spec"].(map[string]any)
	spec["runtimeClassName"] = "kata"
	web := at(t, injected, "spec", "containers", "0").(map[string]any)
	web["env"] = append(web["env"].([]any), map[string]any{"name": "A", "value": "again"})
	if r := mustMerge(t, injected, f); len(r.Operations) > 0 {
		t.Fatalf("operations %s", text(r.Operations))
	}
	newer := f
	newer.Hash = "v2"
	r := mustMerge(t, injected, newer)
	if got := text(at(t, r.Pod, "spec", "containers", "0", "env")); got != `[{"name":"B"},{"name":"A","value":"again"}]` || at(t, r.Pod, "spec", "runtimeClassName") != "kata" {
		t.Fatalf("another version of the template: env %s", got)
	}
	if again := mustMerge(t, r.Pod, newer); len(again.Operations) > 0 {
		t.Fatalf("again %s", text(again.Operations))
	}
}

func TestDeletingAnItemThatAnotherTemplateWantsIsAConflict(t *testing.T) {
	pod := parse(t, "metadata: {labels: {l: x}}\nspec: {containers: [{name: web, image: x, env: [{name: A, value: x}], securityContext: {runAsUser: 1}}]}")
	for name, pair := range map[string][2]string{
		"an item":          {"spec: {containers: [{name: web, env: [{name: A, $patch: delete}]}]}", "spec: {containers: [{name: web, env: [{name: A, value: mine}]}]}"},
		"a field":          {"metadata: {labels: {$unset: [l]}}", "metadata: {labels: {l: mine}}"},
		"an object":        {"spec: {containers: [{name: web, securityContext: {$patch: delete}}]}", "spec: {containers: [{name: web, securityContext: {runAsUser: 2}}]}"},
		"a whole list":     {"spec: {containers: [{name: web, env: [{$patch: replace}]}]}", "spec: {containers: [{name: web, env: [{name: A, $patch: delete}, {name: B}]}]}"},
		"a whole sidecar":  {"spec: {initContainers: [{name: s, image: a}]}", "spec: {initContainers: [{name: s, image: a, $patch: replace, args: [x]}]}"},
		"a sidecar's name": {"spec: {initContainers: [{name: s, image: a}]}", "spec: {initContainers: [{name: s, $patch: delete}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a whole list" {
				// The later template would lose the item of the earlier one.
				pair[0], pair[1] = pair[1], pair[0]
			}
			_, err := mergeInto(t, pod, fragment(t, "a", pair[0]), fragment(t, "b", pair[1]))
			var conflict *ConflictError
			if !errors.As(err, &conflict) || conflict.Template != "b" || conflict.Other != "a" {
				t.Fatalf("error %v, want a conflict of b with a", err)
			}
		})
	}
}

func TestAnExtensionOfAContainerThatAnEarlierTemplateDeletedIsLeftOut(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}, {name: debug, image: d}]}")
	r := lawful(t, pod, fragment(t, "a", "spec: {containers: [{name: debug, $patch: delete}]}"),
		fragment(t, "b", "spec: {containers: [{name: web, env: [{name: A}]}, {name: debug, env: [{name: A}]}]}"))
	wantPod(t, r.Pod, "metadata: {}\nspec: {containers: [{name: web, image: x, env: [{name: A}]}]}")
}

func TestRequestsThatTheAPIServerDerivedGiveWay(t *testing.T) {
	web := func(resources string) map[string]any {
		return parse(t, "spec: {containers: [{name: web, image: x, resources: "+resources+"}]}")
	}
	for name, c := range map[string]struct {
		pod      string
		fragment string
		over     bool
		want     string
	}{
		"lower requests":              {"{limits: {cpu: 1}, requests: {cpu: 1000m}}", "{requests: {cpu: 10m}}", false, `{"limits":{"cpu":1},"requests":{"cpu":"10m"}}`},
		"they follow another limit":   {"{limits: {cpu: 2}, requests: {cpu: 2}}", "{limits: {cpu: 1}}", true, `{"limits":{"cpu":1},"requests":{"cpu":1}}`},
		"an author's own do not":      {"{limits: {cpu: 2}, requests: {cpu: 1}}", "{limits: {cpu: 3}}", true, `{"limits":{"cpu":3},"requests":{"cpu":1}}`},
		"nor those a template wants":  {"{limits: {cpu: 2}, requests: {cpu: 2}}", "{limits: {cpu: 3}, requests: {cpu: 1}}", true, `{"limits":{"cpu":3},"requests":{"cpu":1}}`},
		"an author's own is conflict": {"{limits: {cpu: 2}, requests: {cpu: 1}}", "{requests: {cpu: 2}}", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := fragment(t, "t", "spec: {containers: [{name: web, resources: "+c.fragment+"}]}")
			if c.over {
				f.OnConflict = Overwrite
			}
			if c.want == "" {
				if _, err := mergeInto(t, web(c.pod), f); err == nil {
					t.Fatal("no conflict")
				}
				return
			}
			if got := text(at(t, lawful(t, web(c.pod), f).Pod, "spec", "containers", "0", "resources")); got != c.want {
				t.Fatalf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestKeepPodWarnsOnlyIfThePodsValueStays(t *testing.T) {
	pod := parse(t, "spec: {dnsPolicy: None, containers: [{name: web, image: x}]}")
	keeps, overwrites := fragment(t, "a", "spec: {dnsPolicy: Default}"), fragment(t, "b", "spec: {dnsPolicy: ClusterFirst}")
	keeps.OnConflict, overwrites.OnConflict = KeepPod, Overwrite
	if alone := lawful(t, pod, keeps); len(alone.Warnings) != 1 {
		t.Fatalf("alone: warnings %q", alone.Warnings)
	}
	first := lawful(t, pod, keeps, overwrites)
	again := mustMerge(t, first.Pod, keeps, overwrites)
	aboutA := func(r injected) bool { return strings.Contains(text(r.Warnings), "template a") }
	if aboutA(first) || aboutA(again) || len(first.Warnings) != 1 {
		t.Fatalf("first %q, again %q", first.Warnings, again.Warnings)
	}
}

func TestUninjectKeepsTheValuesThatSomebodyChanged(t *testing.T) {
	pod := parse(t, "metadata: {labels: {a: own}}\nspec: {dnsPolicy: None, containers: [{name: web, image: x, env: [{name: OWN}]}]}")
	f := fragment(t, "t", "metadata: {labels: {a: b, c: d}}\nspec: {dnsPolicy: Default, hostname: h, serviceAccountName: robot, hostNetwork: true, priorityClassName: high, tolerations: [{key: k}], initContainers: [{name: s, image: x}],"+
		"containers: [{name: web, env: [{name: A, value: x, $onConflict: Deny}, {name: B, value: x}], ports: [{containerPort: 1}], resources: {limits: {cpu: 1}}}]}")
	f.OnConflict = Overwrite
	apiServer(pod)
	injected := normal(lawful(t, pod, f).Pod)
	spec := injected["spec"].(map[string]any)
	apiServer(injected)
	if _, warnings := recordOf(t, injected).Uninject(injected); len(warnings) > 0 {
		t.Fatalf("the API server changed something that a template wrote: %q", warnings)
	}
	spec["dnsPolicy"], spec["hostname"] = "ClusterFirstWithHostNet", "other"
	at(t, injected, "spec", "initContainers", "0").(map[string]any)["image"] = "mirror/x"
	at(t, injected, "spec", "containers", "0", "env", "1").(map[string]any)["value"] = "theirs"
	back, warnings := recordOf(t, injected).Uninject(injected)
	for _, path := range []string{"spec.dnsPolicy", "spec.hostname", "spec.containers[name=web].env[name=A]"} {
		if !strings.Contains(strings.Join(warnings, "\n"), path+": somebody changed it") {
			t.Errorf("no warning of %s in %q", path, warnings)
		}
	}
	want := pod["spec"].(map[string]any)
	want["dnsPolicy"], want["hostname"] = "ClusterFirstWithHostNet", "other"
	web := at(t, pod, "spec", "containers", "0").(map[string]any)
	web["env"] = append(web["env"].([]any), map[string]any{"name": "A", "value": "theirs"})
	if text(back) != text(pod) || len(warnings) != 3 {
		t.Fatalf("got  %s\nwant %s\n%q", text(back), text(pod), warnings)
	}
}

// On a second call these templates see each other's items in the pod.
func TestTemplatesThatAgreeOnTheFirstCallAgreeOnTheSecond(t *testing.T) {
	for name, c := range map[string]struct{ pod, a, b string }{
		"one agrees with the pod, the other extends it": {"spec: {initContainers: [{name: i, image: x}]}", "spec: {initContainers: [{name: i, image: x}]}", "spec: {initContainers: [{name: i, args: [a]}]}"},
		"one empties what is empty, the other fills it": {"spec: {readinessGates: []}", "spec: {$unset: [readinessGates]}", "spec: {readinessGates: [{conditionType: a}]}"},
		"both delete it, a third brings it":             {"spec: {nodeSelector: {a: b}}", "spec: {$unset: [nodeSelector]}", "spec: {nodeSelector: {$patch: delete}, hostname: h}"},
	} {
		t.Run(name, func(t *testing.T) {
			lawful(t, parse(t, c.pod), fragment(t, "a", c.a), fragment(t, "b", c.b))
		})
	}
}

func TestNoOnConflictSettlesADisagreementOfTwoTemplates(t *testing.T) {
	for name, c := range map[string]struct{ pod, a, b string }{
		"each overwrites one variable": {"spec: {containers: [{name: c, image: x, env: [{name: A, value: own}]}]}",
			"spec: {containers: [{name: c, env: [{name: A, value: a, $onConflict: Overwrite}]}]}", "spec: {containers: [{name: c, env: [{name: A, value: b, $onConflict: Overwrite}]}]}"},
		"each wants another handler": {"spec: {containers: [{name: c, image: x, livenessProbe: {exec: {command: [a]}}}]}",
			"spec: {containers: [{name: c, livenessProbe: {$onConflict: Overwrite, grpc: {port: 1}}}]}", "spec: {containers: [{name: c, livenessProbe: {$onConflict: Overwrite, exec: {command: [b]}}}]}"},
		"one takes away what another overwrites": {"spec: {nodeSelector: {disk: ssd}}", "spec: {nodeSelector: {$patch: delete}}", "spec: {nodeSelector: {$onConflict: Overwrite, disk: hdd}}"},
		"one takes away what another leaves to the pod": {"spec: {containers: [{name: c, image: x, env: [{name: A, value: own}]}]}",
			"spec: {containers: [{name: c, env: [{name: A, value: a}]}]}", "spec: {containers: [{name: c, env: [{name: A, $patch: delete}]}]}"},
	} {
		for _, turned := range []bool{false, true} {
			if turned {
				c.a, c.b = c.b, c.a
			}
			_, err := mergeInto(t, parse(t, c.pod), fragment(t, "a", c.a), fragment(t, "b", c.b))
			var conflict *ConflictError
			if !errors.As(err, &conflict) || conflict.Template != "b" || conflict.Other != "a" {
				t.Errorf("%s, turned %v: error %v, want a conflict of b with a", name, turned, err)
			}
		}
	}
}

func TestBrokenDigestsDoNoHarm(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
	for _, wrote := range []string{"x", "zzzzzzzz", strings.Repeat("0", 1000), "\u2028\u2028\u2028"} {
		injected := normal(lawful(t, pod, mesh(t, "web")).Pod)
		rec := recordOf(t, injected)
		spoilDigests(rec.Root, wrote)
		at(t, injected, "metadata", "annotations").(map[string]any)[statusKey] = rec.Encode()
		r := mustMerge(t, injected, mesh(t, "web later"))
		if again := mustMerge(t, r.Pod, mesh(t, "web later")); len(again.Operations) > 0 {
			t.Errorf("%.20q: again %s", wrote, text(again.Operations))
		}
	}
}

func spoilDigests(p *record.Place, wrote string) {
	if p.Wrote != "" {
		p.Wrote = wrote
	}
	for _, child := range p.In {
		spoilDigests(child, wrote)
	}
}
