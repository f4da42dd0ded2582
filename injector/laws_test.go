package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// Parts of fragments. A template of the laws has some of them.
var fragmentParts = []string{
	`metadata: {labels: {mesh: "on", app: other}}`,
	`metadata: {labels: {$unset: [app]}}`,
	`metadata: {annotations: {note: {$append: ",", value: b}, own: x}}`,
	`metadata: {annotations: {note: {$prepend: ";", value: c}}}`,
	`spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet}`,
	`spec: {hostNetwork: {$onConflict: KeepPod, value: true}, priorityClassName: high}`,
	`spec: {serviceAccountName: robot, terminationGracePeriodSeconds: {$onConflict: Overwrite, value: 60}}`,
	`spec: {$unset: [nodeSelector, hostname], securityContext: {runAsNonRoot: true, sysctls: [{name: a.b, value: "1"}]}}`,
	`spec: {securityContext: {$patch: replace, runAsUser: 7}}`,
	`spec: {tolerations: [{key: gpu, operator: Exists}, {operator: Exists, effect: NoExecute}]}`,
	`spec: {tolerations: [{$patch: replace}, {key: only, operator: Exists}]}`,
	`spec: {dnsConfig: {options: [{name: ndots, value: "2"}], nameservers: ["10.0.0.10"]}}`,
	`spec: {volumes: [{name: data, emptyDir: {}}, {name: late, $position: First, emptyDir: {medium: Memory}}]}`,
	`spec: {volumes: [{name: cache, $patch: delete}, {name: NAME-data, configMap: {name: c}}]}`,
	`spec: {initContainers: [{name: NAME, image: "side:1", restartPolicy: Always, env: [{name: A, value: "1"}, {name: B, value: "$(A)", $position: First}], ports: [{containerPort: PORT}]}]}`,
	`spec: {initContainers: [{name: NAME, $position: First, image: "side:1", resources: {limits: {memory: 64Mi, cpu: 10m}}}]}`,
	`spec: {initContainers: [{name: NAME, $position: {before: own-init}, image: side, volumeMounts: [{name: data, mountPath: /d}]}, {name: NAME-2, $position: {after: NAME}, image: "side:2"}], volumes: [{name: data, emptyDir: {}}]}`,
	`spec: {containers: [{name: NAME, image: "side:1", lifecycle: {preStop: {sleep: {seconds: 3}}}}]}`,
	`spec: {containers: [{name: shared, image: "shared:1", args: [x]}]}`,
	`spec: {containers: [{$each: App, env: [{name: HTTP_PROXY, value: "http://p"}, {name: OPTS, $append: " ", value: "-NAME"}], volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, emptyDir: {}}]}`,
	`spec: {containers: [{$each: All, env: [{name: EVERY, value: NAME}, {name: FIRST, value: x, $position: First}]}]}`,
	`spec: {containers: [{$each: All, envFrom: [{configMapRef: {name: all}}], securityContext: {capabilities: {add: [NET_ADMIN]}}}]}`,
	`spec: {containers: [{$each: Init, env: [{name: OPTS, $prepend: ":", value: "NAME"}]}]}`,
	`spec: {containers: [{$each: App, resources: {limits: {memory: 1Gi}}, livenessProbe: {httpGet: {path: /live, port: 80}}}]}`,
	`spec: {containers: [{$each: App, resources: {$onConflict: Overwrite, limits: {cpu: 700m}, requests: {memory: 10Mi}}}]}`,
	`spec: {containers: [{$each: App, env: [{name: OPTS, $patch: delete}], $unset: [workingDir]}]}`,
	`spec: {containers: [{$each: App, env: [{$patch: replace}, {name: ONLY, value: x}]}]}`,
	`spec: {containers: [{$each: App, lifecycle: {$onConflict: Overwrite, preStop: {exec: {command: [a]}}}, terminationMessagePolicy: FallbackToLogsOnError}]}`,
	`spec: {resources: {limits: {cpu: "2"}}}`,
	`spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}], schedulerName: mine}`,
	`spec: {automountServiceAccountToken: false, shareProcessNamespace: true, imagePullSecrets: [{name: pull}]}`,
}

// Parts of pods.
var podParts = []string{
	`metadata: {labels: {app: web, "example.com/x": y}}`,
	`metadata: {annotations: {note: a, "a]b~c": d}}`,
	`spec: {initContainers: [{name: own-init, image: "init:1"}, {name: own-side, image: "side:9", restartPolicy: Always, env: [{name: OPTS, value: i}]}]}`,
	`spec: {volumes: [{name: cache, emptyDir: {}}, {name: more, hostPath: {path: /x}}]}`,
	`spec: {volumes: [{name: data, emptyDir: {}}]}`,
	`spec: {hostNetwork: true, hostname: h, nodeSelector: {disk: ssd}}`,
	`spec: {resources: {limits: {cpu: "1", memory: 1Gi}}}`,
	`spec: {resources: {requests: {cpu: "1"}}}`,
	`spec: {terminationGracePeriodSeconds: 5, securityContext: {runAsUser: 3}, priority: 0, preemptionPolicy: PreemptLowerPriority}`,
	`spec: {tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}, {key: mine, operator: Exists}]}`,
	`spec: {serviceAccountName: default, serviceAccount: default}`,
	`spec: {dnsConfig: {options: [{name: ndots, value: "5"}]}}`,
}

// Parts of the app's container.
var containerParts = []string{
	`{env: [{name: OPTS, value: "-a"}, {name: HTTP_PROXY, value: mine}]}`,
	`{env: [{name: OPTS, value: "-x"}, {name: OPTS, value: "-y"}, {name: Z, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
	`{ports: [{containerPort: 80, name: web}, {containerPort: 53, protocol: UDP}]}`,
	`{resources: {limits: {memory: 2Gi, cpu: "1"}, requests: {memory: 2Gi}}}`,
	`{volumeMounts: [{name: cache, mountPath: /data}], workingDir: /w}`,
	`{livenessProbe: {tcpSocket: {port: 80}}, lifecycle: {preStop: {sleep: {seconds: 1}}}}`,
	`{securityContext: {capabilities: {add: [CHOWN], drop: [ALL]}}}`,
}

func fromYAML(t errtest.T, text string) map[string]any {
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	object, err := DecodePod(b)
	errtest.ExpectNone(t, err)
	return object
}

// joined returns two values put together: objects by their fields, lists one behind the other.
func joinedValue(a, b any) any {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return a
		}
		x = maps.Clone(x)
		for key, v := range y {
			if there, ok := x[key]; ok {
				x[key] = joinedValue(there, v)
			} else {
				x[key] = v
			}
		}
		return x
	case []any:
		if y, ok := b.([]any); ok {
			return append(append([]any{}, x...), y...)
		}
	}
	return a
}

func drawParts(t *rapid.T, label string, parts []string, most int) map[string]any {
	all := map[string]any{}
	for _, part := range rapid.SliceOfNDistinct(rapid.SampledFrom(parts), 0, most, rapid.ID[string]).Draw(t, label) {
		all = joinedValue(all, fromYAML(t, part)).(map[string]any)
	}
	return all
}

// drawTemplate returns a template that compiles, of up to three parts.
func drawTemplate(t *rapid.T, name, spec string) (templates.Entry, bool) {
	var parts []string
	for _, part := range fragmentParts {
		parts = append(parts, strings.NewReplacer("NAME", name, "PORT", fmt.Sprint(9000+len(name)+int(name[0]))).Replace(part))
	}
	inject := drawParts(t, name, parts, 3)
	manifest, err := json.Marshal(map[string]any{"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate", "metadata": map[string]any{"name": name}, "spec": joinedValue(fromYAML(t, spec), map[string]any{"inject": inject})})
	errtest.ExpectNone(t, err)
	template, _, err := templates.Compile(manifest, templates.Options{})
	if err != nil || len(inject) == 0 {
		return templates.Entry{}, false
	}
	return templates.Entry{Name: name, Template: template}, true
}

func drawPod(t *rapid.T) map[string]any {
	pod := joinedValue(fromYAML(t, `{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {}}, spec: {containers: [{name: app, image: "app:1"}, {name: second, image: "app:2"}]}}`), drawParts(t, "pod", podParts, 5)).(map[string]any)
	spec := pod["spec"].(map[string]any)
	containers := spec["containers"].([]any)
	for i := range containers {
		containers[i] = joinedValue(containers[i], drawParts(t, fmt.Sprint("container ", i), containerParts, 3))
	}
	if rapid.Bool().Draw(t, "token") {
		spec["volumes"] = append(listOfAny(spec["volumes"]), object(tokenVolume))
		for _, list := range []string{"containers", "initContainers"} {
			for _, c := range itemsOf(pod, list) {
				c["volumeMounts"] = append(listOfAny(c["volumeMounts"]), object(tokenMount))
			}
		}
	}
	if rapid.Bool().Draw(t, "defaults") {
		pod = podschema.WithDefaults(pod)
	}
	return pod
}

// asking returns the pod with an annotation that asks for all templates that are not required.
func asking(set *templates.Set, pod map[string]any) map[string]any {
	var names []string
	for _, e := range set.All() {
		if !e.Required() {
			names = append(names, e.Name)
		}
	}
	if len(names) > 0 {
		pod["metadata"].(map[string]any)["annotations"].(map[string]any)["pillion.dev/inject"] = strings.Join(names, ",")
	}
	return pod
}

func listOfAny(v any) []any { l, _ := v.([]any); return l }

func drawSet(t *rapid.T, required bool) *templates.Set {
	var entries []templates.Entry
	for i, name := range []string{"a", "b", "c"} {
		onConflict := rapid.SampledFrom([]string{"Deny", "KeepPod", "Overwrite"}).Draw(t, "onConflict")
		spec := fmt.Sprintf("{order: %d, onConflict: %s, overridable: %v}", i, onConflict, rapid.Bool().Draw(t, "overridable"))
		if e, ok := drawTemplate(t, name, spec); ok {
			entries = append(entries, e)
		}
	}
	for _, name := range []string{"r", "s"} {
		if !required {
			break
		}
		if e, ok := drawTemplate(t, name, "{required: true, match: {podSelector: {}}}"); ok {
			entries = append(entries, e)
		}
	}
	return templates.NewSet(entries)
}

func recordOf(t errtest.T, pod map[string]any) record.Record {
	rec, err := record.Parse(pod)
	errtest.ExpectNone(t, err)
	return rec
}

// The laws of the record: the base pod of an injected pod is the pod that came, and a second call
// changes nothing.
func TestLawsOfTheRecord(t *testing.T) {
	admitted := 0
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t, rapid.Bool().Draw(t, "required"))
		pod := asking(set, drawPod(t))
		before := string(podschema.Encode(pod))
		out := injectOnce(t, set, pod)
		if string(podschema.Encode(pod)) != before {
			t.Fatal("the input was changed")
		}
		if !out.Allowed {
			return
		}
		admitted++
		if diff := cmp.Diff(pod, recordOf(t, out.Pod).Base(out.Pod)); diff != "" {
			t.Fatalf("the base pod is not the pod that came (-came +base)\n%s\n%s", diff, recordOf(t, out.Pod).Encode())
		}
		again := injectOnce(t, set, out.Pod)
		if !again.Allowed || len(again.Operations) > 0 || !reflect.DeepEqual(again.Pod, out.Pod) {
			t.Fatalf("a second call: %s\n%s", again.Message, cmp.Diff(out.Pod, again.Pod))
		}
		verify(t, set, out.Pod)
	})
	if admitted < 20 {
		t.Errorf("only %d pods were admitted", admitted)
	}
}

func verify(t *rapid.T, set *templates.Set, pod map[string]any) {
	out, err := NewPipeline(Config{}).Verify(context.Background(), Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: set})
	if err != nil || !out.Allowed {
		t.Fatalf("the injected pod is refused: %v %s", err, out.Message)
	}
}

// Whatever others make of an injected pod, the next call settles, and the one after it changes nothing.
func TestACallAfterOthersSettles(t *testing.T) {
	settled := 0
	defer func() {
		if t.Logf("%d settled", settled); settled < 20 {
			t.Errorf("only %d settled", settled)
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t, rapid.Bool().Draw(t, "required"))
		pod := asking(set, drawPod(t))
		out := injectOnce(t, set, pod)
		if !out.Allowed {
			return
		}
		changed := changeByOthers(t, out.Pod)
		second := injectOnce(t, set, changed)
		if !second.Allowed {
			return
		}
		third := injectOnce(t, set, second.Pod)
		if !third.Allowed || len(third.Operations) > 0 {
			t.Fatalf("the third call: %s\n%s", third.Message, cmp.Diff(second.Pod, third.Pod))
		}
		verify(t, set, second.Pod)
		settled++
		if _, warnings := recordOf(t, second.Pod).Uninject(second.Pod); len(warnings) > 50 {
			t.Fatal(warnings)
		}
	})
}

// changeByOthers returns a copy of the pod with a few changes.
func changeByOthers(t *rapid.T, pod map[string]any) map[string]any {
	pod, err := DecodePod(podschema.Encode(pod))
	errtest.ExpectNone(t, err)
	spec := pod["spec"].(map[string]any)
	for range rapid.IntRange(1, 4).Draw(t, "changes") {
		lists := []string{"containers", "initContainers", "volumes", "tolerations"}
		list := rapid.SampledFrom(lists).Draw(t, "list")
		items := listOfAny(spec[list])
		if len(items) == 0 {
			continue
		}
		i := rapid.IntRange(0, len(items)-1).Draw(t, "item")
		item := items[i].(map[string]any)
		switch rapid.IntRange(0, 5).Draw(t, "change") {
		case 0:
			if list == "containers" && len(items) == 1 {
				continue
			}
			spec[list] = append(append([]any{}, items[:i]...), items[i+1:]...)
		case 1:
			item["image"] = "mirror.example.com/x:1"
		case 2:
			for j, k := 0, len(items)-1; j < k; j, k = j+1, k-1 {
				items[j], items[k] = items[k], items[j]
			}
		case 3:
			item["env"] = append(listOfAny(item["env"]), map[string]any{"name": "OPTS", "value": "other"})
		case 4:
			if env := listOfAny(item["env"]); len(env) > 0 {
				item["env"] = env[1:]
			}
		case 5:
			delete(item, rapid.SampledFrom([]string{"resources", "securityContext", "volumeMounts", "lifecycle", "emptyDir"}).Draw(t, "field"))
		}
	}
	if rapid.Bool().Draw(t, "defaults later") {
		pod = podschema.WithDefaults(pod)
	}
	return pod
}

const auditor = `required: true
  match: {podSelector: {}}
  inject:
    spec:
      initContainers: [{name: auditor, $position: First, image: "auditor:1", restartPolicy: Always, env: [{name: MODE, value: strict}], volumeMounts: [{name: conf, mountPath: /conf}]}]
      containers: [{$each: App, env: [{name: AUDITED, value: "yes"}]}]
      volumes: [{name: conf, projected: {sources: [{configMap: {name: audit-conf}}]}}]
`

// Parts of fragments that would change a pod's auditor, or what it gives to the pod's containers.
var hostileParts = []string{
	`spec: {initContainers: [{name: auditor, command: ["true"], $unset: [restartPolicy, env]}]}`,
	`spec: {initContainers: [{name: auditor, image: "evil:1"}]}`,
	`spec: {initContainers: [{name: auditor, $patch: delete}]}`,
	`spec: {initContainers: [{name: evil, $position: {before: auditor}, image: "evil:1"}]}`,
	`spec: {initContainers: [{name: evil, $position: First, image: "evil:1", volumeMounts: [{name: conf, mountPath: /x}]}]}`,
	`spec: {initContainers: [{$each: Init, command: [x]}]}`,
	`spec: {containers: [{$each: All, env: [{name: LD_PRELOAD, value: /x}, {name: MODE, $append: ",", value: off}], volumeMounts: [{name: conf, mountPath: /y}]}]}`,
	`spec: {containers: [{$each: All, env: [{name: AUDITED, $onConflict: Overwrite, value: "no"}]}]}`,
	`spec: {containers: [{$each: App, env: [{name: AUDITED, $patch: delete}]}]}`,
	`spec: {containers: [{$each: App, env: [{name: AUDITED, $append: ",", value: "no"}]}]}`,
	`spec: {containers: [{$each: Init, envFrom: [{configMapRef: {name: evil}}]}]}`,
	`spec: {containers: [{$each: All, volumeMounts: [{name: mine, mountPath: /conf}]}], volumes: [{name: mine, emptyDir: {}}]}`,
	`spec: {volumes: [{name: conf, projected: {sources: [{configMap: {name: mine}}]}}]}`,
	`spec: {volumes: [{name: conf, $onConflict: Overwrite, hostPath: {path: /}}]}`,
	`spec: {volumes: [{name: conf, $patch: delete}]}`,
	`spec: {containers: [{name: auditor, image: "evil:1"}]}`,
	`spec: {initContainers: [{$patch: replace}]}`,
	`metadata: {labels: {exempt: "true"}}`,
}

// drawHostileSet returns the auditor with up to two templates of hostile parts, of the cluster or of the namespace.
func drawHostileSet(t *rapid.T, required *templates.Template) *templates.Set {
	entries := []templates.Entry{{Name: "auditor", Template: required}}
	for i, name := range []string{"evil", "other"} {
		inject := drawParts(t, name, hostileParts, 3)
		manifest, _ := json.Marshal(map[string]any{"apiVersion": "pillion.dev/v1alpha1", "kind": "SidecarTemplate", "metadata": map[string]any{"name": name}, "spec": map[string]any{
			"match": map[string]any{"podSelector": map[string]any{}}, "order": 2*i - 1, "inject": inject, "overridable": rapid.Bool().Draw(t, "overridable"),
			"onConflict": rapid.SampledFrom([]string{"Deny", "KeepPod", "Overwrite"}).Draw(t, "onConflict"), "onError": rapid.SampledFrom([]string{"Deny", "Skip"}).Draw(t, "onError"),
		}})
		if template, _, err := templates.Compile(manifest, templates.Options{}); err == nil && len(inject) > 0 {
			entries = append(entries, templates.Entry{Name: name, Namespace: rapid.SampledFrom([]string{"", "shop"}).Draw(t, "of"), Template: template})
		}
	}
	return templates.NewSet(entries)
}

// No other template and no declaration of the pod changes what a required template gives: the final pod has the
// sidecar as rendered, and first. The app's containers have the variable. No other container mounts the volume.
func TestNoOtherTemplateReachesARequiredSidecar(t *testing.T) {
	required := templatestest.Compile(t, templatestest.Manifest("auditor", auditor))
	alone := injectOnce(t, templates.NewSet([]templates.Entry{{Name: "auditor", Template: required}}), object(`{"metadata":{"name":"x"},"spec":{"containers":[{"name":"app","image":"a"}]}}`))
	want, volume := itemsOf(alone.Pod, "initContainers")[0], itemsOf(alone.Pod, "volumes")[0]
	verified := 0
	rapid.Check(t, func(t *rapid.T) {
		set, pod := drawHostileSet(t, required), drawPod(t)
		spec := pod["spec"].(map[string]any)
		if rapid.Bool().Draw(t, "declared") {
			spec["initContainers"] = append(listOfAny(spec["initContainers"]), want)
		}
		if rapid.Bool().Draw(t, "volume") {
			spec["volumes"] = append(listOfAny(spec["volumes"]), rapid.SampledFrom([]map[string]any{volume, {"name": "conf", "emptyDir": map[string]any{}}}).Draw(t, "source"))
		}
		out := injectOnce(t, set, pod)
		final := pod
		if out.Allowed {
			final = out.Pod
		}
		checked, err := NewPipeline(Config{}).Verify(context.Background(), Request{Operation: "CREATE", Pod: final, Namespace: templates.Namespace{Name: "shop"}, Templates: set})
		if err != nil || !checked.Allowed && out.Allowed {
			t.Fatalf("the injected pod is refused: %v %s", err, checked.Message)
		}
		if checked.Allowed {
			verified++
			checkAudited(t, final, want, volume)
		}
	})
	if verified < 10 {
		t.Errorf("only %d verified", verified)
	}
}

// checkAudited fails the test unless the pod has what the auditor renders.
func checkAudited(t *rapid.T, pod, sidecar, volume map[string]any) {
	inits := itemsOf(pod, "initContainers")
	if len(inits) == 0 || nameOf(inits[0]) != "auditor" {
		t.Fatalf("the sidecar is not first: %v", inits)
	}
	got := maps.Clone(inits[0])
	got["volumeMounts"] = slices.DeleteFunc(slices.Clone(listOfAny(got["volumeMounts"])), func(m any) bool { return reflect.DeepEqual(m, any(object(tokenMount))) })
	if !podschema.Equal(podschema.At("spec.containers[]"), got, sidecar) {
		t.Fatalf("the sidecar is %s", podschema.Encode(inits[0]))
	}
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range itemsOf(pod, list) {
			if nameOf(c) != "auditor" && strings.Contains(string(podschema.Encode(c["volumeMounts"])), `"conf"`) {
				t.Fatalf("%s mounts the volume", nameOf(c))
			}
			if isApp := nameOf(c) == "app" || nameOf(c) == "second"; isApp && !strings.Contains(string(podschema.Encode(c["env"])), `{"name":"AUDITED","value":"yes"}`) {
				t.Fatalf("%s has the variables %s", nameOf(c), podschema.Encode(c["env"]))
			}
		}
	}
	for _, v := range itemsOf(pod, "volumes") {
		if nameOf(v) == "conf" && !podschema.Equal(podschema.At("spec.volumes[]"), v, volume) {
			t.Fatalf("the volume is %s", podschema.Encode(v))
		}
	}
}
