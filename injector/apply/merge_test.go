package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// lawfulAfter injects into a pod that was injected before. The base pod must be the
// same as before, and a call after that changes nothing.
func lawfulAfter(t *testing.T, pod, base map[string]any, frags ...Fragment) injected {
	t.Helper()
	r := mustMerge(t, pod, frags...)
	if got := recordOf(t, r.Pod).Base(r.Pod); text(got) != text(base) {
		t.Fatalf("base %s\nwant %s", text(got), text(base))
	}
	if again := mustMerge(t, r.Pod, frags...); len(again.Operations) > 0 {
		t.Fatalf("again: %s", text(again.Operations))
	}
	return r
}

func TestAnAuthorsFieldsWinOverAnOverridableSidecar(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x}], initContainers: [{name: log, image: auto, env: [{name: LEVEL, value: debug}], resources: {limits: {cpu: 2}}}]}")
	f := fragment(t, "log", "spec: {initContainers: [{name: log, image: 'log:1', restartPolicy: Always, env: [{name: LEVEL, value: info}, {name: HOST, value: h}], resources: {limits: {cpu: 1, memory: 1Gi}}}]}")
	f.Overridable = true
	r := lawful(t, pod, f)
	want := `{"env":[{"name":"LEVEL","value":"debug"},{"name":"HOST","value":"h"}],"image":"log:1","name":"log","resources":{"limits":{"cpu":2,"memory":"1Gi"}},"restartPolicy":"Always"}`
	if got := text(at(t, r.Pod, "spec", "initContainers", "0")); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if len(r.Warnings) > 0 {
		t.Fatalf("warnings %q", r.Warnings)
	}
}

func TestOperationsAreAsDeepAsTheChange(t *testing.T) {
	pod := parse(t, "metadata: {annotations: {own: x}}\nspec: {containers: [{name: other, image: x}, {name: web, image: x, env: [{name: OWN}], volumeMounts: null}]}")
	f := fragment(t, "log", "metadata: {labels: {a: b}}\nspec: {containers: [{name: web, env: [{name: A, $position: First}, {name: B, $position: First}, {name: C}], volumeMounts: [{name: v, mountPath: '/a~b'}]}]}")
	var got []string
	for _, e := range lawful(t, pod, f).Operations {
		value := ""
		if !strings.HasSuffix(e.Pointer(), "status") {
			value = " " + text(e.Value())
		}
		got = append(got, e.Op()+" "+e.Pointer()+value)
	}
	want := []string{
		`add /metadata/labels {"a":"b"}`,
		`add /spec/containers/1/env/0 {"name":"A"}`,
		`add /spec/containers/1/env/1 {"name":"B"}`,
		`add /spec/containers/1/env/- {"name":"C"}`,
		`replace /spec/containers/1/volumeMounts [{"mountPath":"/a~b","name":"v"}]`,
		`add /metadata/labels/log.pillion.dev~1hash "v1"`,
		`add /metadata/labels/pillion.dev~1injected "true"`,
		`add /metadata/annotations/pillion.dev~1status`,
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheStatusAnnotationIsCompactAndSorted(t *testing.T) {
	pod := parse(t, "metadata: {name: p, annotations: null}\nspec: {dnsPolicy: ClusterFirst, containers: [{name: web, image: x}]}")
	f := fragment(t, "log", "metadata: {labels: {'a/b~c': x}}\nspec: {dnsPolicy: None, tolerations: [{key: k, operator: Exists}], containers: [{name: web, ports: [{containerPort: 53, protocol: UDP}], env: [{name: FOO, value: x}]}]}")
	r := lawful(t, pod, f)
	want := `{"pod":{"metadata":{"annotations":{"$made":true,"$was":[null]},"labels":{"$made":true,"a/b~c":"0c73b108"}},` +
		`"spec":{"containers":{"name=web":{"env":{"$made":true,"name=FOO":"601a0cfb"},"ports":{"$made":true,"containerPort=53,protocol=UDP":{"$added":true}}}},` +
		`"dnsPolicy":{"$was":["ClusterFirst"],"$wrote":"1bf5d62b"},"tolerations":{"$made":true,"={\"key\":\"k\",\"operator\":\"Exists\"}":{"$added":true}}}},` +
		`"templates":{"log":"v1"},"v":1}`
	if got := at(t, r.Pod, "metadata", "annotations", statusKey); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestAFragmentThatFitsNoPodIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ object, path, want string }{
		"an extension of nothing":      {"spec: {containers: [{name: none, env: []}]}", "spec.containers[name=none]", `it has "web"`},
		"an extension twice":           {"spec: {containers: [{name: web, args: [a]}], initContainers: [{name: web, args: [a]}]}", "spec.initContainers[name=web]", "containers has such an item, too"},
		"one name twice":               {"spec: {containers: [{name: s, image: x}, {name: s, image: x}]}", "spec.containers[name=s]", "two items"},
		"no name":                      {"spec: {volumes: [{emptyDir: {}}]}", "spec.volumes", "no key"},
		"ephemeral containers":         {"spec: {ephemeralContainers: [{name: e, image: x}]}", "spec.ephemeralContainers", "cannot be injected"},
		"a status":                     {"status: {phase: Running}", "status", "only metadata and spec"},
		"a name":                       {"metadata: {name: x}", "metadata.name", "only labels and annotations"},
		"the status annotation":        {"metadata: {annotations: {pillion.dev/status: x}}", `metadata.annotations["pillion.dev/status"]`, "reserved"},
		"an unknown directive":         {"spec: {$merge: x}", "spec", "$merge unknown directive"},
		"an unknown position":          {"spec: {volumes: [{name: v, $position: {beside: x}}]}", "spec.volumes[name=v]", "must be First, Last, {before: NAME} or {after: NAME}"},
		"two neighbours":               {"spec: {volumes: [{name: v, $position: {before: x, after: y}}]}", "spec.volumes[name=v]", "must be First, Last"},
		"a neighbour without keys":     {"spec: {tolerations: [{key: v, $position: {before: x}}]}", `spec.tolerations[={"$position":{"before":"x"},"key":"v"}]`, "lists whose items have names or keys"},
		"a cycle of one":               {"spec: {volumes: [{name: v, $position: {before: v}}]}", "spec.volumes[name=v]", "v stands before v (template bad)"},
		"an unknown patch":             {"spec: {securityContext: {$patch: merge}}", "spec.securityContext", "must be delete or replace"},
		"a patch of an unnamed item":   {"spec: {tolerations: [{key: v, $patch: delete}]}", `spec.tolerations[={"$patch":"delete","key":"v"}]`, "lists whose items have names or keys"},
		"no spec":                      {"spec: {$patch: delete}", "spec", "remove what no template may"},
		"no containers":                {"spec: {$unset: [containers]}", "spec", "remove what no template may remove: spec.containers"},
		"no status":                    {"metadata: {annotations: {$unset: [pillion.dev/status]}}", `metadata.annotations["pillion.dev/status"]`, "cannot be taken away"},
		"set and unset":                {"spec: {hostname: x, $unset: [hostname]}", "spec", "removes hostname, which this object also sets"},
		"unset what is no field list":  {"spec: {$unset: hostname}", "spec", "must be a list of names of this object's fields"},
		"unset in one value":           {"spec: {containers: [{name: web, env: [{name: A, $unset: [value]}]}]}", "spec.containers[name=web].env[name=A]", "atomic value"},
		"two handlers":                 {"spec: {containers: [{name: web, livenessProbe: {exec: {}, grpc: {port: 1}}}]}", "spec.containers[name=web].livenessProbe", "both exec and grpc"},
		"two service accounts":         {"spec: {serviceAccount: a, serviceAccountName: b}", "spec.serviceAccount", `"a" is not "b"`},
		"a replacement without image":  {"spec: {containers: [{name: web, $patch: replace, args: [x]}]}", "spec.containers[name=web]", "give the item an image"},
		"a position outside a list":    {"spec: {$position: First}", "spec", "items of lists"},
		"an unknown policy":            {"spec: {$onConflict: Ignore}", "spec", "must be one of Deny, KeepPod, Overwrite"},
		"a list where a map belongs":   {"metadata: {labels: [a]}", "metadata.labels", "a map is expected"},
		"a map where a list belongs":   {"spec: {containers: {name: x}}", "spec.containers", "a list is expected"},
		"text where an object belongs": {"spec: {securityContext: x}", "spec.securityContext", "an object is expected"},
		"an object where text belongs": {"spec: {hostname: {}}", "spec.hostname", "a scalar is expected"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := parse(t, "spec: {containers: [{name: web, image: x}]}")
			_, err := mergeInto(t, pod, fragment(t, "bad", c.object))
			var fault *FragmentError
			if !errors.As(err, &fault) || fault.Template != "bad" || fault.Path != c.path || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one at %s with %q", err, c.path, c.want)
			}
		})
	}
}

func TestATemplateGivenTwiceOrWithAnUnknownPolicyIsRefused(t *testing.T) {
	pod := parse(t, "spec: {}")
	f := fragment(t, "a", "spec: {hostNetwork: true}")
	if _, err := mergeInto(t, pod, f, f); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("error %v", err)
	}
	f.OnConflict = "Whatever"
	if _, err := mergeInto(t, pod, f); err == nil || !strings.Contains(err.Error(), `onConflict "Whatever"`) {
		t.Errorf("error %v", err)
	}
}

func TestAMalformedPodIsRefusedWithThePlace(t *testing.T) {
	f := fragment(t, "a", "metadata: {labels: {a: b}}\nspec: {hostNetwork: true, securityContext: {runAsUser: 1}, containers: [{name: web, env: [{name: A}]}]}")
	for place, pod := range map[string]string{
		"spec": "metadata: {}", "spec.securityContext": "spec: {securityContext: [], containers: [{name: web}]}", "metadata": "metadata: []\nspec: {}",
		"metadata.labels": "metadata: {labels: x}\nspec: {}", "spec.containers[name=web].env": "spec: {containers: [{name: web, env: {}}]}",
		"metadata.annotations": "metadata: {annotations: x}\nspec: {containers: [{name: web}]}",
	} {
		_, err := mergeInto(t, parse(t, pod), f)
		var malformed *PodError
		if !errors.As(err, &malformed) || malformed.Path != place {
			t.Errorf("%s: error %v", place, err)
		}
	}
}

func TestAConflictNamesTheTemplateThePlaceAndBothValues(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: web, image: x, args: ["+strings.Repeat("é", 200)+"]}]}")
	_, err := mergeInto(t, pod, fragment(t, "log", "spec: {containers: [{name: web, args: [b]}]}"))
	want := `template log conflicts at spec.containers[name=web].args: the pod has ["` + strings.Repeat("é", 39) + `…, the template sets ["b"]`
	if err == nil || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
}

func TestANameAmongAnotherKindOfContainerSaysWhy(t *testing.T) {
	pod := parse(t, "spec: {containers: [{name: log, image: x}], ephemeralContainers: [{name: debug, image: x}]}")
	for _, name := range []string{"log", "debug"} {
		_, err := mergeInto(t, pod, fragment(t, "t", "spec: {initContainers: [{name: "+name+", image: x}]}"))
		var conflict *ConflictError
		if !errors.As(err, &conflict) || !strings.Contains(conflict.Hint, "unique") || conflict.Path != "spec.initContainers[name="+name+"]" {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestARecordThatGrowsTooLargeIsTheTemplatesFault(t *testing.T) {
	var env []string
	for i := range 7000 {
		env = append(env, fmt.Sprintf("{name: A_RATHER_LONG_NAME_%d}", i))
	}
	_, err := mergeInto(t, parse(t, "spec: {containers: [{name: web, image: x}]}"), fragment(t, "small", "metadata: {labels: {a: b}}"),
		fragment(t, "big", "spec: {containers: [{name: web, env: ["+strings.Join(env, ",")+"]}]}"))
	var fault *TooLargeError
	if !errors.As(err, &fault) || fault.Template != "big" {
		t.Fatalf("error %v", err)
	}
}

func TestOverwriteWarnsOnEveryCall(t *testing.T) {
	pod := parse(t, `
metadata: {annotations: {}}
spec:
  dnsPolicy: None
  schedulerName: default-scheduler
  volumes: [{name: data, persistentVolumeClaim: {claimName: mine}}]
  containers: [{name: web, image: x, imagePullPolicy: Never, securityContext: {runAsUser: 0}, livenessProbe: {exec: {command: [x]}}}]
`)
	f := fragment(t, "ow", `
spec:
  dnsPolicy: Default
  schedulerName: other
  volumes: [{name: data, emptyDir: {}}]
  containers: [{name: web, imagePullPolicy: Always, securityContext: {runAsUser: 1000}, livenessProbe: {httpGet: {port: 1}}}]
`)
	f.OnConflict = Overwrite
	var want []string
	for _, path := range []string{"containers[name=web].imagePullPolicy", "containers[name=web].livenessProbe.httpGet", "containers[name=web].securityContext.runAsUser", "dnsPolicy", "volumes[name=data]"} {
		want = append(want, "template ow: spec."+path+": the template's value replaces the pod's")
	}
	for _, call := range []string{"first", "second", "third, under another hash", "fourth"} {
		if strings.HasPrefix(call, "third") {
			f.Hash = "v2"
		}
		r := mustMerge(t, pod, f)
		if text(r.Warnings) != text(want) {
			t.Errorf("the %s call warns of %q, want %q", call, r.Warnings, want)
		}
		pod = r.Pod
	}
}

func TestOverwriteAtANodeDoesNotWarn(t *testing.T) {
	pod := parse(t, "spec: {dnsPolicy: None, securityContext: {runAsUser: 0}, containers: [{name: web, image: x, workingDir: /x}]}")
	f := fragment(t, "ow", "spec: {securityContext: {$onConflict: Overwrite, runAsUser: 1}, containers: [{name: web, $unset: [workingDir]}]}")
	if r := mustMerge(t, pod, f); len(r.Warnings) > 0 || len(r.Operations) == 0 {
		t.Errorf("warns of %q", r.Warnings)
	}
}
