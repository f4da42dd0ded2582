package apply

import (
	"errors"
	"strings"
	"testing"
)

// outcome is what one cell of the table expects.
type outcome struct {
	value    string // JSON at the row's path afterwards
	conflict bool
	warning  string // a part of the one warning, "" for none
}

type row struct {
	name, pod, fragment string
	path                []string
	deny, keep, over    outcome
	// explicit is the outcome with $onConflict: Overwrite on the node; rows
	// without one have the outcome of over.
	explicit *outcome
}

func same(value string) (outcome, outcome, outcome) {
	o := outcome{value: value}
	return o, o, o
}

var env = []string{"spec", "containers", "0", "env", "0"}

func table() []row {
	pod := func(container, rest string) string {
		return "metadata: {name: p}\nspec: {containers: [{name: web, image: 'nginx:1'" + container + "}]" + rest + "}"
	}
	extend := func(fields string) string { return "spec: {containers: [{name: web, " + fields + "}]}" }
	all := func(r row, value string) row { r.deny, r.keep, r.over = same(value); return r }
	clash := func(r row, stays, wins string) row {
		r.deny = outcome{value: stays, conflict: true}
		r.keep = outcome{value: stays, warning: "the pod's value is used"}
		r.over = outcome{value: wins, warning: "the template's value replaces the pod's"}
		return r
	}
	podStays := func(r row, stays, wins string) row {
		o := outcome{value: stays, warning: "the pod's value is used"}
		if strings.Contains(r.fragment, "volumeMounts") {
			o.warning = "a sidecar will not see its files"
		}
		r.deny, r.keep, r.over, r.explicit = o, o, o, &outcome{value: wins}
		return r
	}
	sidecar := "spec: {initContainers: [{name: log, image: 'log:1'}]}"
	return []row{
		all(row{name: "an item not in the pod is added", pod: pod("", ""), fragment: sidecar, path: []string{"spec", "initContainers", "0"}},
			`{"image":"log:1","name":"log"}`),
		all(row{name: "an equal value is left alone", pod: pod(", env: [{name: A, value: x}]", ""), fragment: extend("env: [{name: A, value: x}]"), path: env},
			`{"name":"A","value":"x"}`),
		all(row{name: "a value equal modulo defaults is left alone", pod: pod("", ", volumes: [{name: c, configMap: {name: x, defaultMode: 420}}]"),
			fragment: "spec: {volumes: [{name: c, configMap: {name: x}}]}", path: []string{"spec", "volumes", "0"}},
			`{"configMap":{"defaultMode":420,"name":"x"},"name":"c"}`),
		all(row{name: "an equal quantity is left alone", pod: pod(", resources: {limits: {cpu: 1000m, memory: '67108864'}}", ""),
			fragment: extend("resources: {limits: {cpu: 1, memory: 64Mi}}"), path: []string{"spec", "containers", "0", "resources", "limits"}},
			`{"cpu":"1000m","memory":"67108864"}`),
		clash(row{name: "an author's container of the sidecar's name conflicts", pod: pod("", ", initContainers: [{name: log, image: 'mine:1'}]"), fragment: sidecar,
			path: []string{"spec", "initContainers", "0"}}, `{"image":"mine:1","name":"log"}`, `{"image":"log:1","name":"log"}`),
		{name: "the sidecar's name among another kind of container conflicts", pod: pod("", ""), fragment: "spec: {initContainers: [{name: web, image: 'log:1'}]}",
			path: []string{"spec", "initContainers"}, deny: outcome{value: "null", conflict: true}, keep: outcome{value: "null", warning: "the pod's value is used"},
			over: outcome{value: "null", conflict: true}},
		podStays(row{name: "env of an app container stays", pod: pod(", env: [{name: A, value: x}]", ""), fragment: extend("env: [{name: A, value: z%}]"), path: env},
			`{"name":"A","value":"x"}`, `{"name":"A","value":"z"}`),
		podStays(row{name: "an env value and a source are never mixed", pod: pod(", env: [{name: A, value: x}]", ""),
			fragment: extend("env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}%}]"), path: env},
			`{"name":"A","value":"x"}`, `{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`),
		podStays(row{name: "a mount of an app container stays", pod: pod(", volumeMounts: [{name: a, mountPath: /x}]", ""),
			fragment: extend("volumeMounts: [{name: b, mountPath: /x%}]"), path: []string{"spec", "containers", "0", "volumeMounts", "0"}},
			`{"mountPath":"/x","name":"a"}`, `{"mountPath":"/x","name":"b"}`),
		podStays(row{name: "a label stays", pod: "metadata: {labels: {app: web}}\nspec: {}", fragment: "metadata: {labels: {app: other%}}", path: []string{"metadata", "labels", "app"}},
			`"web"`, `"other"`),
		podStays(row{name: "an annotation stays", pod: "metadata: {annotations: {a/b: x}}\nspec: {}", fragment: "metadata: {annotations: {a/b: z%}}", path: []string{"metadata", "annotations", "a/b"}},
			`"x"`, `"z"`),
		clash(row{name: "a volume of another source conflicts", pod: pod("", ", volumes: [{name: v, emptyDir: {}}]"), fragment: "spec: {volumes: [{name: v, hostPath: {path: /x}}]}",
			path: []string{"spec", "volumes", "0"}}, `{"emptyDir":{},"name":"v"}`, `{"hostPath":{"path":"/x"},"name":"v"}`),
		all(row{name: "an absent scalar becomes the template's", pod: pod("", ""), fragment: "spec: {hostNetwork: true}", path: []string{"spec", "hostNetwork"}}, `true`),
		all(row{name: "a null scalar becomes the template's", pod: pod("", ", hostname: null"), fragment: "spec: {hostname: x}", path: []string{"spec", "hostname"}}, `"x"`),
		all(row{name: "a scalar at the API's default becomes the template's", pod: pod("", ", terminationGracePeriodSeconds: 30"),
			fragment: "spec: {terminationGracePeriodSeconds: 60}", path: []string{"spec", "terminationGracePeriodSeconds"}}, `60`),
		all(row{name: "a default that depends on the image becomes the template's", pod: pod(", imagePullPolicy: IfNotPresent", ""),
			fragment: extend("imagePullPolicy: Always"), path: []string{"spec", "containers", "0", "imagePullPolicy"}}, `"Always"`),
		all(row{name: "the service account that admission set becomes the template's", pod: pod("", ", serviceAccountName: default, serviceAccount: default"),
			fragment: "spec: {serviceAccountName: robot}", path: []string{"spec", "serviceAccount"}}, `"robot"`),
		all(row{name: "computed priority is dropped for the template's class", pod: pod("", ", priority: 0, preemptionPolicy: PreemptLowerPriority"),
			fragment: "spec: {priorityClassName: high}", path: []string{"spec", "priority"}}, `null`),
		all(row{name: "a computed priority becomes the template's", pod: pod("", ", priority: 0, preemptionPolicy: PreemptLowerPriority"),
			fragment: "spec: {priority: 7, preemptionPolicy: Never}", path: []string{"spec", "priority"}}, `7`),
		all(row{name: "a default toleration gives way to the template's",
			pod: pod("", ", tolerations: [{key: x, operator: Exists}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300},"+
				"{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]"),
			fragment: "spec: {tolerations: [{operator: Exists}]}", path: []string{"spec", "tolerations"}},
			`[{"key":"x","operator":"Exists"},{"operator":"Exists"}]`),
		all(row{name: "what LimitRange says it set becomes the template's",
			pod: "metadata: {annotations: {kubernetes.io/limit-ranger: 'LimitRanger plugin set: cpu, memory request for container web; memory limit for container web'}}\n" +
				"spec: {containers: [{name: web, image: x, resources: {limits: {memory: 1Gi}, requests: {cpu: 100m, memory: 1Gi}}}]}",
			fragment: extend("resources: {limits: {memory: 2Gi}}"), path: []string{"spec", "containers", "0", "resources", "limits", "memory"}}, `"2Gi"`),
		clash(row{name: "a limit that nobody says was defaulted conflicts", pod: pod(", resources: {limits: {memory: 1Gi}}", ""),
			fragment: extend("resources: {limits: {memory: 2Gi}}"), path: []string{"spec", "containers", "0", "resources", "limits", "memory"}}, `"1Gi"`, `"2Gi"`),
		clash(row{name: "a scalar that the pod set conflicts", pod: pod("", ", dnsPolicy: None"), fragment: "spec: {dnsPolicy: Default}", path: []string{"spec", "dnsPolicy"}}, `"None"`, `"Default"`),
		clash(row{name: "an atomic list is one scalar", pod: pod(", args: [a]", ""), fragment: extend("args: [b]"), path: []string{"spec", "containers", "0", "args"}}, `["a"]`, `["b"]`),
		clash(row{name: "a node selector is a map of scalars", pod: pod("", ", nodeSelector: {a: x, b: x}"), fragment: "spec: {nodeSelector: {a: z}}",
			path: []string{"spec", "nodeSelector"}}, `{"a":"x","b":"x"}`, `{"a":"z","b":"x"}`),
		clash(row{name: "probe handlers are never mixed", pod: pod(", livenessProbe: {httpGet: {port: 80}, periodSeconds: 5}", ""),
			fragment: extend("livenessProbe: {exec: {command: [x]}}"), path: []string{"spec", "containers", "0", "livenessProbe"}},
			`{"httpGet":{"port":80},"periodSeconds":5}`, `{"exec":{"command":["x"]},"periodSeconds":5}`),
		clash(row{name: "a field of a probe is a scalar", pod: pod(", livenessProbe: {httpGet: {port: 80}}", ""), fragment: extend("livenessProbe: {httpGet: {port: '80'}}"),
			path: []string{"spec", "containers", "0", "livenessProbe", "httpGet", "port"}}, `80`, `"80"`),
		clash(row{name: "a sysctl of one name has one value", pod: pod("", ", securityContext: {sysctls: [{name: a, value: '1'}]}"),
			fragment: "spec: {securityContext: {sysctls: [{name: a, value: '2'}]}}", path: []string{"spec", "securityContext", "sysctls", "0", "value"}}, `"1"`, `"2"`),
		all(row{name: "absent items of a set are appended", pod: pod(", securityContext: {capabilities: {drop: [NET_RAW]}}", ""),
			fragment: extend("securityContext: {capabilities: {drop: [ALL, NET_RAW]}}"), path: []string{"spec", "containers", "0", "securityContext", "capabilities", "drop"}},
			`["NET_RAW","ALL"]`),
		all(row{name: "ports of one number and two protocols are two", pod: pod(", ports: [{containerPort: 53}]", ""),
			fragment: extend("ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]"), path: []string{"spec", "containers", "0", "ports"}},
			`[{"containerPort":53},{"containerPort":53,"protocol":"UDP"}]`),
		all(row{name: "sources of a projected volume are gathered", pod: pod("", ", volumes: [{name: v, projected: {sources: [{configMap: {name: a}}]}}]"),
			fragment: "spec: {volumes: [{name: v, projected: {sources: [{secret: {name: b}}, {configMap: {name: a}}]}}]}",
			path:     []string{"spec", "volumes", "0", "projected", "sources"}}, `[{"configMap":{"name":"a"}},{"secret":{"name":"b"}}]`),
		all(row{name: "a field that this build does not know is one value", pod: pod("", ""), fragment: "spec: {brandNew: {a: [1]}}", path: []string{"spec", "brandNew"}}, `{"a":[1]}`),
		clash(row{name: "an unknown field that differs conflicts", pod: pod("", ", brandNew: {a: 1}"), fragment: "spec: {brandNew: {b: 1}}", path: []string{"spec", "brandNew"}}, `{"a":1}`, `{"b":1}`),
	}
}

func TestEveryRowOfTheMergeTable(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			plain := strings.ReplaceAll(r.fragment, "%", "")
			for policy, want := range map[string]outcome{"": r.deny, Deny: r.deny, KeepPod: r.keep, Overwrite: r.over} {
				t.Run("onConflict "+policy, func(t *testing.T) { checkCell(t, r, plain, policy, want) })
			}
			if r.explicit != nil {
				t.Run("$onConflict Deny", func(t *testing.T) {
					checkCell(t, r, strings.ReplaceAll(r.fragment, "%", ", $onConflict: Deny"), KeepPod, outcome{conflict: true})
				})
				marked := strings.ReplaceAll(r.fragment, "%", ", $onConflict: Overwrite")
				t.Run("$onConflict Overwrite", func(t *testing.T) { checkCell(t, r, marked, Deny, *r.explicit) })
			}
		})
	}
}

func checkCell(t *testing.T, r row, object, policy string, want outcome) {
	pod, f := parse(t, r.pod), fragment(t, "log", object)
	f.OnConflict = policy
	result, err := mergeInto(t, pod, f)
	if want.conflict {
		var conflict *ConflictError
		if !errors.As(err, &conflict) || conflict.Template != "log" || conflict.Path == "" || conflict.PodValue == "" || conflict.TemplateValue == "" {
			t.Fatalf("error %v, want a whole conflict", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := text(at(t, result.Pod, r.path...)); got != want.value {
		t.Errorf("got %s, want %s", got, want.value)
	}
	if got := strings.Join(result.Warnings, "\n"); (want.warning == "") != (got == "") || !strings.Contains(got, want.warning) {
		t.Errorf("warnings %q, want %q", got, want.warning)
	}
	lawful(t, pod, f)
}

func TestTwoTemplatesThatDisagreeAreAConflictThatNamesBoth(t *testing.T) {
	pod := parse(t, "spec: {dnsPolicy: ClusterFirst, containers: [{name: web, image: x, ports: [{containerPort: 80}]}]}")
	for name, pair := range map[string][2]string{
		"env":                 {"spec: {containers: [{name: web, env: [{name: A, value: x}]}]}", "spec: {containers: [{name: web, env: [{name: A, value: z}]}]}"},
		"a label":             {"metadata: {labels: {a: x}}", "metadata: {labels: {a: z}}"},
		"a scalar":            {"spec: {hostname: x}", "spec: {hostname: z}"},
		"a default and other": {"spec: {dnsPolicy: ClusterFirst}", "spec: {dnsPolicy: None}"},
		"other and a default": {"spec: {dnsPolicy: None}", "spec: {dnsPolicy: ClusterFirst}"},
		"a sidecar":           {"spec: {containers: [{name: s, image: x}]}", "spec: {containers: [{name: s, image: z}]}"},
		"kinds of containers": {"spec: {containers: [{name: s, image: x}]}", "spec: {initContainers: [{name: s, image: x}]}"},
		"a field of the other's sidecar": {"spec: {containers: [{name: s, image: x, env: [{name: A, value: x}]}]}",
			"spec: {containers: [{name: s, env: [{name: A, value: z}]}]}"},
		"a volume":                     {"spec: {volumes: [{name: v, emptyDir: {}}]}", "spec: {volumes: [{name: v, emptyDir: {medium: Memory}}]}"},
		"a list that goes and an item": {"spec: {containers: [{name: web, $unset: [ports]}]}", "spec: {containers: [{name: web, ports: [{containerPort: 81}]}]}"},
		"an item and a list that goes": {"spec: {containers: [{name: web, ports: [{containerPort: 81}]}]}", "spec: {containers: [{name: web, $unset: [ports]}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := fragment(t, "a", pair[0]), fragment(t, "b", pair[1])
			_, err := mergeInto(t, pod, a, b)
			var conflict *ConflictError
			if !errors.As(err, &conflict) || conflict.Template != "b" || conflict.Other != "a" {
				t.Fatalf("error %v, want a conflict of b with a", err)
			}
			// onConflict is about the pod.
			for _, policy := range []string{KeepPod, Overwrite} {
				b.OnConflict = policy
				if _, err := mergeInto(t, pod, a, b); !errors.As(err, &conflict) || conflict.Other != "a" {
					t.Fatalf("%s: error %v, want a conflict of b with a", policy, err)
				}
			}
		})
	}
}

func TestTwoTemplatesThatAgreeShareTheItem(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
	both := "spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: web, volumeMounts: [{name: v, mountPath: /v}]}], tolerations: [{key: a}]}"
	r := lawful(t, pod, fragment(t, "a", both), fragment(t, "b", both))
	if got := text(at(t, r.Pod, "spec", "volumes")); got != `[{"emptyDir":{},"name":"v"}]` {
		t.Fatalf("volumes %s", got)
	}
	if len(r.Templates) != 2 {
		t.Fatalf("templates %v", r.Templates)
	}
	// Only one of the two templates changes the item that they shared.
	changed := fragment(t, "a", strings.ReplaceAll(both, "emptyDir: {}", "emptyDir: {medium: Memory}"))
	changed.Hash = "v2"
	_, err := mergeInto(t, r.Pod, changed, fragment(t, "b", both))
	var conflict *ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("error %v, want a conflict", err)
	}
}

// On the second call the pod has the value of the template that overwrites. The template
// with KeepPod still leaves the place alone.
func TestATemplateWithKeepPodLeavesAloneWhatALaterTemplateOverwrote(t *testing.T) {
	for name, c := range map[string]struct{ pod, keeps, overwrites string }{
		"a scalar":          {"spec: {terminationGracePeriodSeconds: 5}", "spec: {terminationGracePeriodSeconds: 60}", "spec: {terminationGracePeriodSeconds: 60}"},
		"a probe's handler": {"spec: {containers: [{name: web, livenessProbe: {exec: {command: [x]}}}]}", "spec: {containers: [{name: web, livenessProbe: {httpGet: {port: 1, path: /x}}}]}", "spec: {containers: [{name: web, livenessProbe: {httpGet: {port: 1}}}]}"},
		"a volume":          {"spec: {volumes: [{name: v, hostPath: {path: /x}}]}", "spec: {volumes: [{name: v, projected: {sources: [{secret: {name: a}}]}}]}", "spec: {volumes: [{name: v, projected: {sources: [{secret: {name: b}}]}}]}"},
		"a sidecar":         {"spec: {containers: [{name: s, image: own}]}", "spec: {containers: [{name: s, image: a, args: [x]}]}", "spec: {containers: [{name: s, image: b}]}"},
		"an extended one":   {"spec: {containers: [{name: s, image: own, env: [{name: A, value: own}]}]}", "spec: {containers: [{name: s, env: [{name: A, value: x}]}]}", "spec: {containers: [{name: s, image: b}]}"},
	} {
		for _, traced := range []bool{false, true} {
			keeps, overwrites := fragment(t, "a", c.keeps), fragment(t, "b", c.overwrites)
			keeps.OnConflict, overwrites.OnConflict = KeepPod, Overwrite
			if traced {
				keeps.Object["metadata"] = map[string]any{"labels": map[string]any{"trace": "x"}}
			}
			t.Run(name, func(t *testing.T) { lawful(t, parse(t, c.pod), keeps, overwrites) })
		}
	}
}

func TestAnAuthorWhoOverridesAllOfASidecarStillDoesAfterALaterOverwrite(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: s, image: own, args: [x]}]}")
	yields, overwrites := fragment(t, "a", "spec: {containers: [{name: s, image: a, args: [y]}]}"), fragment(t, "b", "spec: {containers: [{name: s, image: b}]}")
	yields.Overridable, overwrites.OnConflict = true, Overwrite
	lawful(t, pod, yields, overwrites)
}

func TestAContainerThatAnEarlierTemplateExtendsIsNotOverwritten(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: s, image: own}]}")
	extends, overwrites := fragment(t, "a", "spec: {containers: [{name: s, env: [{name: A}]}]}"), fragment(t, "b", "spec: {containers: [{name: s, image: b}]}")
	overwrites.OnConflict = Overwrite
	_, err := mergeInto(t, pod, extends, overwrites)
	var conflict *ConflictError
	if !errors.As(err, &conflict) || conflict.Other != "a" || conflict.Hint == "" {
		t.Fatalf("error %v", err)
	}
}

func TestAnItemThatSomebodyAddsUnderATemplatesKeyStaysInTheBasePod(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
	changed := normal(lawful(t, pod, fragment(t, "a", "spec: {containers: [{name: web, env: [{name: A, value: ours}]}]}")).Pod)
	web := at(t, changed, "spec", "containers", "0").(map[string]any)
	web["env"] = append(web["env"].([]any), map[string]any{"name": "A", "value": "theirs"})
	if got := text(at(t, recordOf(t, changed).Base(changed), env[:4]...)); got != `[{"name":"A","value":"theirs"}]` {
		t.Fatalf("env in the base pod: %s", got)
	}
}

func TestATemplateThatComesLaterGathersSourcesInAVolumeThatAnotherOverwrote(t *testing.T) {
	pod := parse(t, "spec: {volumes: [{name: v, hostPath: {path: /x}}]}")
	source := func(name string) Fragment {
		f := fragment(t, name, "spec: {volumes: [{name: v, projected: {sources: [{secret: {name: "+name+"}}]}}]}")
		f.OnConflict = Overwrite
		return f
	}
	first := lawful(t, pod, source("a"), source("c"))
	second := lawfulAfter(t, first.Pod, pod, source("a"), source("b"), source("c"))
	if got := text(at(t, second.Pod, "spec", "volumes", "0", "projected", "sources")); got != `[{"secret":{"name":"a"}},{"secret":{"name":"b"}},{"secret":{"name":"c"}}]` {
		t.Fatalf("sources %s", got)
	}
}
