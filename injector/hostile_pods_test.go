package injector

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// hostileTemplates are two required templates and some ordinary ones. Egress extends every container, and
// audit has a sidecar. Each ordinary one has another way to treat a pod's container of its sidecar's name.
var hostileTemplates = []string{
	mandatory("egress", `order: 1, inject: {spec: {containers: [{$each: All, env: [{name: HTTPS_PROXY, value: "http://egress:3128", $onConflict: Overwrite}], securityContext: {runAsNonRoot: true, $onConflict: Overwrite}}]}}`),
	mandatory("audit", `inject: {spec: {initContainers: [{name: audit, image: "audit:1", restartPolicy: Always, volumeMounts: [{name: audit, mountPath: /audit}]}], volumes: [{name: audit, emptyDir: {}}]}}`),
	manifestNamed("deny", `inject: {spec: {initContainers: [{name: deny, image: "deny:1", restartPolicy: Always, command: [run], volumeMounts: [{name: conf, mountPath: /conf}]}], volumes: [{name: conf, configMap: {name: conf}}]}}`),
	manifestNamed("over", `overridable: true, inject: {spec: {containers: [{name: over, image: "over:1"}]}}`),
	manifestNamed("keep", `onConflict: KeepPod, inject: {spec: {containers: [{name: keep, image: "keep:1", env: [{name: A, value: b}]}]}}`),
	manifestNamed("write", `onConflict: Overwrite, inject: {spec: {containers: [{name: write, image: "write:1"}]}}`),
	manifestNamed("skip", `onError: Skip, inject: {spec: {containers: [{name: skip, image: "skip:1"}]}}`),
	manifestNamed("each", `inject: {spec: {initContainers: [{$for: "c in pod.spec.containers", name: "for-${c.name}", image: "for:1"}]}}`),
}

// unreached names the containers that lack egress's variable or security context, and the required sidecar
// if the pod lacks it.
func unreached(pod map[string]any) []string {
	names := []string{"audit"}
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range itemsOf(pod, list) {
			value := any(nil)
			for _, v := range listOfAny(c["env"]) {
				if mapOf(v)["name"] == "HTTPS_PROXY" {
					value = mapOf(v)["value"]
				}
			}
			if nameOf(c) == "audit" && list == "initContainers" && c["image"] == "audit:1" && c["command"] == nil && c["args"] == nil && c["livenessProbe"] == nil {
				names = slices.Delete(names, 0, 1)
			}
			if value != "http://egress:3128" || mapOf(c["securityContext"])["runAsNonRoot"] != true {
				names = append(names, list+"/"+nameOf(c))
			}
		}
	}
	return names
}

func hostilePod(t testing.TB, asks, status, spec string) map[string]any {
	t.Helper()
	annotations := map[string]any{"pillion.dev/inject": asks}
	if status != "" {
		annotations[statusKey] = status
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "annotations": annotations}, "spec": json.RawMessage(spec)})
	if err != nil {
		t.Fatal(err)
	}
	return podOf(t, string(text))
}

func TestARequiredTemplateReachesEveryContainerOfATenant(t *testing.T) {
	set := templatestest.Set(t, hostileTemplates...)
	wrote := func(template string, paths ...string) string {
		entries := map[string]string{}
		for _, path := range paths {
			entries[path] = `{"sum":"0"}`
		}
		e, _ := set.Get(template)
		return forged(t, map[string]string{template: e.Template.Hash()}, entries)
	}
	const deny, conf, web = "spec.initContainers[name=deny]", "spec.volumes[name=conf]", "spec.containers[name=web]"
	for _, c := range []struct{ why, asks, status, spec string }{
		{"a container that the record lists", "deny", wrote("deny", deny), `{"initContainers":[{"name":"deny","image":"evil:1","restartPolicy":"Always","securityContext":{"runAsUser":0}}],"containers":[{"name":"web","image":"i"}]}`},
		{"another volume under the rendered container", "deny", wrote("deny", deny, conf), `{"initContainers":[{"name":"deny","image":"deny:1","restartPolicy":"Always","command":["run"],"volumeMounts":[{"name":"conf","mountPath":"/conf"}]}],"containers":[{"name":"web","image":"i"}],"volumes":[{"name":"conf","persistentVolumeClaim":{"claimName":"evil"}}]}`},
		{"a probe that runs something", "deny", wrote("deny", deny), `{"initContainers":[{"name":"deny","image":"deny:1","restartPolicy":"Always","command":["run"],"livenessProbe":{"exec":{"command":["evil"]}}}],"containers":[{"name":"web","image":"i"}]}`},
		{"an overridable sidecar", "over", "", `{"containers":[{"name":"over","image":"auto","command":["evil"]},{"name":"web","image":"i"}]}`},
		{"a template that keeps the pod's", "keep", "", `{"containers":[{"name":"keep","image":"evil:1"},{"name":"web","image":"i"}]}`},
		{"a template that is skipped", "skip", "", `{"containers":[{"name":"skip","image":"evil:1"},{"name":"web","image":"i"}]}`},
		{"a sidecar that is rendered for a container of the forged base", "each", forged(t, map[string]string{"gone": "h"}, map[string]string{"spec.containers[name=x]": `{"gone":[[0,{"name":"x","image":"x"}]]}`}), `{"initContainers":[{"name":"for-x","image":"evil:1"}],"containers":[{"name":"web","image":"i"}]}`},
		{"an original that another template wrote over", "deny", forged(t, map[string]string{"gone": "h"}, map[string]string{web + ".env[name=HTTPS_PROXY]": `{"sum":"0","was":{"name":"HTTPS_PROXY","value":"http://egress:3128"}}`}), `{"containers":[{"name":"web","image":"i","env":[{"name":"HTTPS_PROXY","value":"evil"}]}]}`},
		{"a record that says egress gave it all", "deny", wrote("egress", web, web+".env[name=HTTPS_PROXY]", web+".securityContext.runAsNonRoot"), `{"containers":[{"name":"web","image":"i","env":[{"name":"HTTPS_PROXY","value":"evil"}],"securityContext":{"runAsNonRoot":false}}]}`},
		{"a record that hides the sidecar", "deny", wrote("audit", "spec.initContainers[name=audit]"), `{"initContainers":[{"name":"audit","image":"evil:1","restartPolicy":"Always"}],"containers":[{"name":"web","image":"i"}]}`},
		{"a record that takes all containers away", "deny", forged(t, map[string]string{"egress": "h"}, map[string]string{"spec.containers": `{"sum":"0","was":[]}`, "metadata": `{"made":true}`, "spec": `{"sum":"0"}`}), `{"containers":[{"name":"web","image":"i"}]}`},
	} {
		pod := hostilePod(t, c.asks, c.status, c.spec)
		out := injectIn(t, templates.Namespace{Name: "shop"}, set, pod)
		if wrong := verifyRequired(t, set, Request{Operation: "CREATE", Pod: out.Pod}, nil); out.Allowed && (len(unreached(out.Pod)) > 0 || wrong != "") {
			t.Errorf("%s: not reached: %v; verified: %q", c.why, unreached(out.Pod), wrong)
		}
		if !out.Allowed && !strings.Contains(out.Message, "template ") {
			t.Errorf("%s: refused: %s", c.why, out.Message)
		}
		if wrong := verifyRequired(t, set, Request{Operation: "CREATE", Pod: pod}, nil); !strings.Contains(wrong, "template egress: ") {
			t.Errorf("%s: verified as it came: %q", c.why, wrong)
		}
	}
}

// drawHostile draws the pod of a tenant who knows the templates and can write any record.
func drawHostile(t *rapid.T, set *templates.Set) map[string]any {
	names := []string{"web", "audit", "deny", "over", "keep", "write", "skip", "for-web", "for-x"}
	container := func(name string) map[string]any {
		c := map[string]any{"name": name, "image": rapid.SampledFrom([]string{"evil:1", "auto", strings.TrimSuffix(name, "-web") + ":1"}).Draw(t, "image")}
		if name == "deny" || name == "audit" {
			c["restartPolicy"] = "Always"
		}
		for _, field := range rapid.SliceOfN(rapid.SampledFrom([]string{
			`{"command":["run"]}`, `{"command":["evil"]}`, `{"env":[{"name":"HTTPS_PROXY","value":"evil"}]}`, `{"env":[{"name":"A","value":"b"}]}`, `{"env":[{"name":"HTTPS_PROXY","value":"http://egress:3128"},{"name":"HTTPS_PROXY","value":"evil"}]}`,
			`{"env":[{"name":"HTTPS_PROXY","value":"http://egress:3128"}],"securityContext":{"runAsNonRoot":true}}`, `{"securityContext":{"runAsNonRoot":false,"privileged":true}}`,
			`{"volumeMounts":[{"name":"conf","mountPath":"/conf"}]}`, `{"volumeMounts":[{"name":"audit","mountPath":"/audit"}]}`, `{"livenessProbe":{"exec":{"command":["evil"]}}}`,
		}), 0, 3).Draw(t, "fields") {
			maps.Copy(c, object(field))
		}
		return c
	}
	spec, used := map[string]any{"containers": []any{container("web")}}, map[string]bool{"web": true}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "others") {
		if list := rapid.SampledFrom([]string{"containers", "initContainers"}).Draw(t, "list"); !used[name] {
			used[name], spec[list] = true, append(listOfAny(spec[list]), container(name))
		}
	}
	for _, volume := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"conf", "audit"}), 0, 2, rapid.ID).Draw(t, "volumes") {
		source := object(rapid.SampledFrom([]string{`{"emptyDir":{}}`, `{"configMap":{"name":"conf"}}`, `{"persistentVolumeClaim":{"claimName":"evil"}}`}).Draw(t, "source"))
		source["name"] = volume
		spec["volumes"] = append(listOfAny(spec["volumes"]), source)
	}
	annotations := map[string]any{}
	if asks := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"deny", "over", "keep", "write", "skip", "each"}), 0, 4, rapid.ID).Draw(t, "asks"); len(asks) > 0 {
		annotations["pillion.dev/inject"] = strings.Join(asks, ",")
	}
	if record := drawRecord(t, names); record != "" {
		annotations[statusKey] = record
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "annotations": annotations}, "spec": spec}
}

// drawRecord draws a record that says anything, "" for none.
func drawRecord(t *rapid.T, names []string) string {
	paths := []string{"spec.initContainers", "spec.containers", "spec", "metadata", "metadata.annotations[pillion.dev~1inject]", "spec.volumes[name=conf]", "spec.volumes[name=audit]"}
	for _, name := range names {
		for _, list := range []string{"containers", "initContainers"} {
			at := "spec." + list + "[name=" + name + "]"
			paths = append(paths, at, at, at, at+".env", at+".env[name=HTTPS_PROXY]", at+".securityContext", at+".securityContext.runAsNonRoot", at+".image")
		}
	}
	proxy := map[string]any{"name": "HTTPS_PROXY", "value": "http://egress:3128"}
	sums := []any{"0", "", podschema.Digest(podschema.At("spec.containers[].env[]"), proxy)}
	values := []any{nil, "x", proxy, map[string]any{"name": "x", "image": "x"}, map[string]any{"name": "deny", "image": "deny:1"}, true, []any{}}
	set := map[string]any{}
	for _, path := range rapid.SliceOfN(rapid.SampledFrom(paths), 0, 9).Draw(t, "entries") {
		entry := map[string]any{"sum": rapid.SampledFrom(sums).Draw(t, "sum")}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			entry["was"] = rapid.SampledFrom(values).Draw(t, "was")
		case 1:
			entry["made"] = true
		case 2:
			entry["gone"] = []any{[]any{0, rapid.SampledFrom(values).Draw(t, "gone")}}
		}
		set[path] = entry
	}
	if len(set) == 0 {
		return ""
	}
	text, _ := json.Marshal(map[string]any{"v": 1, "templates": map[string]any{"deny": "0"}, "set": set})
	return string(text)
}

// Whatever the pod and its record say, each container of an admitted pod has what the required template gives
// to all containers, and the required sidecar is there. The verification refuses every other pod.
func TestNoTenantGetsPastARequiredTemplate(t *testing.T) {
	set := templatestest.Set(t, hostileTemplates...)
	var admitted, refused int
	rapid.Check(t, func(rt *rapid.T) {
		pod := drawHostile(rt, set)
		r := Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: set}
		verified := func(pod map[string]any) string {
			r.Pod = pod
			out, err := NewPipeline(Config{}).Verify(t.Context(), r)
			if err != nil {
				rt.Fatal(err)
			}
			if len(unreached(pod)) > 0 && out.Allowed && valid(pod) {
				rt.Fatalf("verification passes a pod with %v", unreached(pod))
			}
			return out.Message
		}
		verified(pod)
		out := injectOnce(rt, set, pod)
		if !out.Allowed || !valid(out.Pod) { // a forged record can bring about two containers of one name
			refused++
			return
		}
		admitted++
		if got := unreached(out.Pod); len(got) > 0 {
			rt.Fatalf("not reached: %v\nof %s\nin %s", got, podschema.Encode(pod), podschema.Encode(out.Pod))
		}
		if wrong := verified(out.Pod); wrong != "" {
			rt.Fatalf("the verification refuses the pod that the injection gave: %q", wrong)
		}
		// With a record that says what Pillion never says, the second call may find something to do, or to refuse.
		if again := injectOnce(rt, set, out.Pod); again.Allowed && verified(again.Pod) != "" {
			rt.Fatalf("the second call gives a pod that is refused: %s", verified(again.Pod))
		}
		verified(changeAnywhere(rt, out.Pod))
	})
	if admitted == 0 || refused == 0 {
		t.Errorf("%d admitted, %d refused: want some of both", admitted, refused)
	}
}

// Sidecars of other templates are kept, though other webhooks changed them or an older version of their
// template made them. A call after that changes nothing.
func TestHonestPodsPassARequiredTemplate(t *testing.T) {
	mounted := func(pod map[string]any) map[string]any {
		pod = podOf(t, encode(t, pod))
		spec := pod["spec"].(map[string]any)
		if volumes := listOfAny(spec["volumes"]); !slices.ContainsFunc(volumes, merge.IsTokenVolume) {
			spec["volumes"] = append(volumes, object(tokenVolume))
		}
		for _, list := range []string{"initContainers", "containers"} {
			for _, c := range itemsOf(pod, list) {
				c["volumeMounts"] = append(merge.WithoutToken(c["volumeMounts"]), object(tokenMount))
				c["terminationMessagePath"], c["imagePullPolicy"] = "/dev/termination-log", "IfNotPresent"
			}
		}
		return pod
	}
	mirrored := func(pod map[string]any) map[string]any {
		pod = mounted(pod)
		for _, c := range itemsOf(pod, "initContainers") {
			if nameOf(c) != "audit" {
				c["image"] = "mirror.example.com/" + c["image"].(string)
			}
		}
		return pod
	}
	same := func(pod map[string]any) map[string]any { return pod }
	var newer []string
	for _, text := range hostileTemplates {
		newer = append(newer, strings.ReplaceAll(text, "deny:1", "deny:2"))
	}
	for _, c := range []struct {
		why            string
		before, change func(map[string]any) map[string]any
		later          []string
		image          string
		unedited       bool // the second call changes nothing
	}{
		{"nothing happens in between", same, same, hostileTemplates, "deny:1", true},
		{"the API server sets defaults in a pod with its token", mounted, mounted, hostileTemplates, "deny:1", true},
		{"the API server mounts tokens only now", same, mounted, hostileTemplates, "deny:1", false},
		{"images come from a mirror", mounted, mirrored, hostileTemplates, "mirror.example.com/deny:1", true},
		{"the template has a newer version", same, mounted, newer, "deny:2", false},
		{"the record is lost", same, func(pod map[string]any) map[string]any {
			return patched(t, pod, `[{"op":"remove","path":"/metadata/annotations/pillion.dev~1status"}]`)
		}, hostileTemplates, "deny:1", false},
	} {
		set, later := templatestest.Set(t, hostileTemplates...), templatestest.Set(t, c.later...)
		pod := c.before(hostilePod(t, "deny,over,keep,write", "", `{"initContainers":[{"name":"migrate","image":"m:1"}],"containers":[{"name":"web","image":"i"},{"name":"over","image":"own:1"}]}`))
		first, refusal := injectedAndVerified(t, set, pod)
		if refusal != "" {
			t.Fatalf("the first call: %s", refusal)
		}
		changed := c.change(first)
		second, refusal := injectedAndVerified(t, later, changed)
		if refusal != "" {
			t.Errorf("%s: the second call: %s", c.why, refusal)
			continue
		}
		if c.unedited && encode(t, second) != encode(t, changed) {
			t.Errorf("%s: the second call gives %s", c.why, encode(t, second))
		}
		if image := podschema.LookUp(second, []string{"spec", "initContainers", "name=deny", "image"}); image != c.image {
			t.Errorf("%s: the sidecar is %v", c.why, image)
		}
		if out := injectIn(t, alone, later, second); !out.Allowed || len(out.Operations) > 0 {
			t.Errorf("%s: the third call: %s %s", c.why, out.Message, patch.Marshal(out.Operations))
		}
	}
}

// A container that a required template extends may become another one later only where it is none of a required
// template's own.
func TestOnlyRequiredSidecarsKeepTheirImages(t *testing.T) {
	set := templatestest.Set(t, hostileTemplates...)
	made, refusal := injectedAndVerified(t, set, hostilePod(t, "deny", "", `{"containers":[{"name":"web","image":"i"}]}`))
	if refusal != "" {
		t.Fatal(refusal)
	}
	unmarked := patched(t, made, `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"remove","path":"/metadata/annotations"}]`)
	for _, old := range []map[string]any{made, unmarked} {
		for name, says := range map[string]string{"audit": `the container audit would have the image "evil:1"`, "deny": ""} {
			at := slices.IndexFunc(itemsOf(old, "initContainers"), func(c map[string]any) bool { return nameOf(c) == name })
			pod := patched(t, old, fmt.Sprintf(`[{"op":"replace","path":"/spec/initContainers/%d/image","value":"evil:1"}]`, at))
			wantSays(t, name, verifyRequired(t, set, Request{Operation: "UPDATE", Pod: pod}, old), says)
		}
	}
}
