package injector

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/record/recordtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// hostileTemplates are one template, egress, that extends every container, and others
// that add a container each. Those treat a pod's container of the same name in every way
// that templates have.
var hostileTemplates = map[string]string{
	"egress": `
  required: true
  match: {podSelector: {}}
  inject: {spec: {containers: [{$each: All, env: [{name: HTTPS_PROXY, value: "http://egress:3128", $onConflict: Overwrite}], securityContext: {runAsNonRoot: true, $onConflict: Overwrite}}]}}`,
	"audit": `
  required: true
  match: {podSelector: {}}
  inject: {spec: {initContainers: [{name: audit, image: "audit:1", restartPolicy: Always, volumeMounts: [{name: audit, mountPath: /audit}]}], volumes: [{name: audit, emptyDir: {}}]}}`,
	"deny": `
  inject: {spec: {initContainers: [{name: deny, image: "deny:1", restartPolicy: Always, command: [run], volumeMounts: [{name: conf, mountPath: /conf}]}], volumes: [{name: conf, configMap: {name: conf}}]}}`,
	"over": `
  overridable: true
  inject: {spec: {containers: [{name: over, image: "over:1"}]}}`,
	"keep": `
  onConflict: KeepPod
  inject: {spec: {containers: [{name: keep, image: "keep:1", env: [{name: A, value: b}]}]}}`,
	"write": `
  onConflict: Overwrite
  inject: {spec: {containers: [{name: write, image: "write:1"}]}}`,
	"skip": `
  onError: Skip
  inject: {spec: {containers: [{name: skip, image: "skip:1"}]}}`,
	"each": `
  inject: {spec: {initContainers: [{$for: c in pod.spec.containers, name: "for-${c.name}", image: "for:1"}]}}`,
	"files": `
  onConflict: KeepPod
  variables: [{name: port, expression: "dyn(container).?ports[?0].?containerPort.orValue(1)"}]
  files: {own: "text\n", pods: "${string(size(pod.spec.containers))}"}
  inject: {spec: {containers: [{$each: App, volumeMounts: [{name: files-files, mountPath: /files}], env: [{name: PORT, value: "${string(variables.port)}"}]}]}}`,
}

func hostileSet(t testing.TB, edit ...string) *templates.Set {
	t.Helper()
	specs := map[string]string{}
	for name, spec := range hostileTemplates {
		specs[name] = strings.NewReplacer(edit...).Replace(spec)
	}
	return setOf(t, specs)
}

// asRendered reports whether a container is as one of the hostileTemplates renders it.
// The $each of egress leaves such a container alone.
func asRendered(list string, c map[string]any) bool {
	want := map[string]string{
		"initContainers/audit": `{"name":"audit","image":"audit:1","restartPolicy":"Always","volumeMounts":[{"name":"audit","mountPath":"/audit"}]}`,
		"initContainers/deny":  `{"name":"deny","image":"deny:1","restartPolicy":"Always","command":["run"],"volumeMounts":[{"name":"conf","mountPath":"/conf"}]}`,
		"containers/over":      `{"name":"over","image":"over:1"}`,
		"containers/keep":      `{"name":"keep","image":"keep:1","env":[{"name":"A","value":"b"}]}`,
		"containers/write":     `{"name":"write","image":"write:1"}`,
		"containers/skip":      `{"name":"skip","image":"skip:1"}`,
	}[list+"/"+nameOf(c)]
	if list == "initContainers" && strings.HasPrefix(nameOf(c), "for-") {
		want = fmt.Sprintf(`{"name":%q,"image":"for:1"}`, nameOf(c))
	}
	if env, ok := c["env"].([]any); ok && len(env) == 0 {
		c = maps.Clone(c)
		delete(c, "env")
	}
	var wanted map[string]any
	return want != "" && json.Unmarshal([]byte(want), &wanted) == nil && reflect.DeepEqual(c, wanted)
}

// unreached names the containers that are not as rendered and lack egress's variable or
// security context.
func unreached(pod map[string]any) []string {
	var names []string
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range itemsOf(pod, list) {
			security, _ := c["securityContext"].(map[string]any)
			env, _ := c["env"].([]any)
			proxied := slices.ContainsFunc(env, func(v any) bool {
				return reflect.DeepEqual(v, map[string]any{"name": "HTTPS_PROXY", "value": "http://egress:3128"})
			})
			if !asRendered(list, c) && (!proxied || security["runAsNonRoot"] != true) {
				names = append(names, list+"/"+nameOf(c))
			}
		}
	}
	return names
}

func hostilePod(t testing.TB, asks, status string, spec string) map[string]any {
	t.Helper()
	annotations := map[string]any{"pillion.dev/inject": asks}
	if status != "" {
		annotations["pillion.dev/status"] = status
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "annotations": annotations}, "spec": json.RawMessage(spec),
	})
	if err != nil {
		t.Fatal(err)
	}
	return podOf(t, string(text))
}

func admitHostile(t testing.TB, set *templates.Set, pod map[string]any) (Outcome, string) {
	t.Helper()
	r := Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: set}
	out, err := NewPipeline(Config{}).Inject(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Pod = out.Pod
	verified, err := NewPipeline(Config{}).Verify(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return out, verified.Message
}

func TestARequiredTemplateReachesEveryContainerOfATenant(t *testing.T) {
	set := hostileSet(t)
	listed := func(template string, paths ...string) string {
		e, _ := set.Get(template)
		return recordtest.Forged{Templates: map[string]string{template: e.Template.Hash()}, Added: paths}.Text()
	}
	for _, c := range []struct{ why, asks, status, spec string }{
		{"a container that the record lists", "deny", listed("deny", "/spec/initContainers/name=deny"),
			`{"initContainers":[{"name":"deny","image":"evil:1","restartPolicy":"Always","securityContext":{"runAsUser":0}}],"containers":[{"name":"web","image":"i"}]}`},
		{"with its volume", "deny", listed("deny", "/spec/initContainers/name=deny", "/spec/volumes/name=conf"),
			`{"initContainers":[{"name":"deny","image":"evil:1","restartPolicy":"Always","securityContext":{"privileged":true}}],"containers":[{"name":"web","image":"i"}]}`},
		{"another volume under the rendered container", "deny", listed("deny", "/spec/initContainers/name=deny", "/spec/volumes/name=conf"),
			`{"initContainers":[{"name":"deny","image":"deny:1","restartPolicy":"Always","command":["run"],"volumeMounts":[{"name":"conf","mountPath":"/conf"}]}],"containers":[{"name":"web","image":"i"}],"volumes":[{"name":"conf","persistentVolumeClaim":{"claimName":"evil"}}]}`},
		{"another entrypoint", "deny", listed("deny", "/spec/initContainers/name=deny"),
			`{"initContainers":[{"name":"deny","image":"deny:1","restartPolicy":"Always","command":["evil"]}],"containers":[{"name":"web","image":"i"}]}`},
		{"a probe that runs something", "deny", listed("deny", "/spec/initContainers/name=deny"),
			`{"initContainers":[{"name":"deny","image":"deny:1","restartPolicy":"Always","command":["run"],"volumeMounts":[{"name":"conf","mountPath":"/conf"}],"livenessProbe":{"exec":{"command":["evil"]}}}],"containers":[{"name":"web","image":"i"}]}`},
		{"a program mounted over the rendered one", "deny", listed("deny", "/spec/initContainers/name=deny"),
			`{"initContainers":[{"name":"deny","image":"deny:1","restartPolicy":"Always","command":["run"],"volumeMounts":[{"name":"conf","mountPath":"/conf"},{"name":"evil","mountPath":"/bin"}]}],"containers":[{"name":"web","image":"i"}],"volumes":[{"name":"evil","emptyDir":{}}]}`},
		{"an overridable sidecar", "over", "", `{"containers":[{"name":"over","image":"evil:1"},{"name":"web","image":"i"}]}`},
		{"an overridable sidecar of the rendered image", "over", "", `{"containers":[{"name":"over","image":"auto","command":["evil"]},{"name":"web","image":"i"}]}`},
		{"a template that keeps the pod's", "keep", "", `{"containers":[{"name":"keep","image":"evil:1"},{"name":"web","image":"i"}]}`},
		{"a template that is skipped", "skip", "", `{"containers":[{"name":"skip","image":"evil:1"},{"name":"web","image":"i"}]}`},
		{"all containers", "over,keep", "", `{"containers":[{"name":"over","image":"evil:1"},{"name":"keep","image":"evil:1"}]}`},
		{"a sidecar that is rendered for a container of the forged base", "each", recordtest.Forged{Templates: map[string]string{"gone": "h"}, Removed: map[string][]record.Removed{"/spec/containers": {{Value: map[string]any{"name": "x", "image": "x"}}}}}.Text(),
			`{"initContainers":[{"name":"for-x","image":"evil:1"}],"containers":[{"name":"web","image":"i"}]}`},
		{"an original that another template wrote over", "deny", recordtest.Forged{Templates: map[string]string{"gone": "h"}, Was: map[string]any{"/spec/containers/name=web/env/name=HTTPS_PROXY": map[string]any{"name": "HTTPS_PROXY", "value": "http://egress:3128"}}}.Text(),
			`{"containers":[{"name":"web","image":"i","env":[{"name":"HTTPS_PROXY","value":"evil"}]}]}`},
		{"a record that says egress gave it all", "deny", listed("egress", "/spec/containers/name=web", "/spec/containers/name=web/env/name=HTTPS_PROXY", "/spec/containers/name=web/securityContext/runAsNonRoot"),
			`{"containers":[{"name":"web","image":"i","env":[{"name":"HTTPS_PROXY","value":"evil"}],"securityContext":{"runAsNonRoot":false}}]}`},
	} {
		pod := hostilePod(t, c.asks, c.status, c.spec)
		out, wrong := admitHostile(t, set, pod)
		if out.Allowed && (len(unreached(out.Pod)) > 0 || wrong != "") {
			t.Errorf("%s: not reached: %v; verified: %q", c.why, unreached(out.Pod), wrong)
		}
		if !out.Allowed && !strings.Contains(out.Message, "template ") {
			t.Errorf("%s: refused: %s", c.why, out.Message)
		}
		// The same pod as a final pod that Pillion did not inject.
		verified, err := NewPipeline(Config{}).Verify(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: set})
		if err != nil || !strings.Contains(verified.Message, "template egress: ") {
			t.Errorf("%s: verified as it came: %v %q", c.why, err, verified.Message)
		}
	}
}

// object reads JSON that is known to be good.
func object(text string) map[string]any {
	o, err := DecodePod([]byte(text))
	if err != nil {
		panic(err)
	}
	return o
}

// hostile draws the pod of a tenant who knows the templates and can write any record.
func hostile(t *rapid.T, set *templates.Set) map[string]any {
	names := []string{"web", "audit", "deny", "over", "keep", "write", "skip", "for-web", "for-x"}
	one := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	container := func(name string) map[string]any {
		rendered := map[string]string{"audit": "audit:1", "deny": "deny:1", "over": "over:1", "keep": "keep:1", "write": "write:1", "skip": "skip:1", "for-web": "for:1", "for-x": "for:1"}[name]
		c := map[string]any{"name": name, "image": one("image", "evil:1", "auto", rendered, rendered)}
		if c["image"] == "" {
			c["image"] = "web:1"
		}
		if name == "deny" || name == "audit" {
			c["restartPolicy"] = "Always"
		}
		for _, field := range rapid.SliceOfN(rapid.SampledFrom([]string{
			`{"command":["run"]}`, `{"command":["evil"]}`, `{"args":["evil"]}`, `{"env":[{"name":"HTTPS_PROXY","value":"evil"}]}`, `{"env":[{"name":"A","value":"b"}]}`,
			`{"env":[{"name":"HTTPS_PROXY","value":"http://egress:3128"}],"securityContext":{"runAsNonRoot":true}}`, `{"securityContext":{"runAsNonRoot":false,"privileged":true}}`,
			`{"volumeMounts":[{"name":"conf","mountPath":"/conf"}]}`, `{"volumeMounts":[{"name":"audit","mountPath":"/audit"}]}`, `{"livenessProbe":{"exec":{"command":["evil"]}}}`,
		}), 0, 3).Draw(t, "fields") {
			maps.Copy(c, object(field))
		}
		return c
	}
	spec := map[string]any{"containers": []any{container("web")}}
	used := map[string]bool{"web": true}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "others") {
		list := one("list", "containers", "initContainers")
		if items, _ := spec[list].([]any); !used[name] {
			used[name], spec[list] = true, append(items, container(name))
		}
	}
	for _, volume := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"conf", "audit"}), 0, 2, rapid.ID).Draw(t, "volumes") {
		items, _ := spec["volumes"].([]any)
		source := object(one("source", `{"emptyDir":{}}`, `{"configMap":{"name":"conf"}}`, `{"persistentVolumeClaim":{"claimName":"evil"}}`))
		source["name"] = volume
		spec["volumes"] = append(items, source)
	}
	paths := []string{"/spec/initContainers", "/spec/containers", "/spec", "/metadata/annotations/pillion.dev~1inject", "/spec/volumes/name=conf", "/spec/volumes/name=audit"}
	for _, name := range names {
		for _, list := range []string{"containers", "initContainers"} {
			at := "/spec/" + list + "/name=" + name
			paths = append(paths, at, at, at+"/env", at+"/env/name=HTTPS_PROXY", at+"/securityContext", at+"/securityContext/runAsNonRoot", at+"/image")
		}
	}
	values := []any{nil, "x", map[string]any{"name": "HTTPS_PROXY", "value": "http://egress:3128"}, map[string]any{"name": "x", "image": "x"}, map[string]any{"name": "deny", "image": "deny:1"}, true}
	forged := recordtest.Forged{Templates: map[string]string{}}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"egress", "audit", "deny", "over", "keep", "write", "skip", "each", "gone"}), 0, 4, rapid.ID).Draw(t, "records") {
		forged.Templates[name] = "0000000000000000"
		if e, ok := set.Get(name); ok && rapid.IntRange(0, 3).Draw(t, "hash") > 0 {
			forged.Templates[name] = e.Template.Hash()
		}
	}
	if len(forged.Templates) > 0 {
		forged.Added = rapid.SliceOfN(rapid.SampledFrom(paths), 0, 9).Draw(t, "added")
		forged.Made = rapid.SliceOfN(rapid.SampledFrom(paths), 0, 3).Draw(t, "made")
		forged.Was = rapid.MapOfN(rapid.SampledFrom(paths), rapid.SampledFrom(values), 0, 3).Draw(t, "was")
		forged.Wrote = rapid.MapOfN(rapid.SampledFrom(paths), rapid.SampledFrom([]string{"00000000", digestOf("http://egress:3128")}), 0, 3).Draw(t, "wrote")
		for _, at := range rapid.SliceOfN(rapid.SampledFrom(paths), 0, 1).Draw(t, "removed") {
			forged.Removed = map[string][]record.Removed{at: {{Value: rapid.SampledFrom(values).Draw(t, "value")}}}
		}
	}
	annotations := map[string]any{}
	if asks := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"deny", "over", "keep", "write", "skip", "each"}), 0, 4, rapid.ID).Draw(t, "asks"); len(asks) > 0 {
		annotations["pillion.dev/inject"] = strings.Join(asks, ",")
	}
	if len(forged.Templates) > 0 {
		annotations["pillion.dev/status"] = forged.Text()
	}
	if rapid.IntRange(0, 9).Draw(t, "mirror") == 0 {
		annotations["kubernetes.io/config.mirror"] = "x"
	}
	text, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "annotations": annotations}, "spec": spec})
	return object(string(text))
}

// TestNoTenantGetsPastARequiredTemplate: whatever the pod and its record say, each
// container of an admitted pod either is as a template renders it, or has the variable and
// the security context that the required template gives to all containers. The
// verification refuses every other pod.
func TestNoTenantGetsPastARequiredTemplate(t *testing.T) {
	set := hostileSet(t)
	var admitted, refused int
	rapid.Check(t, func(rt *rapid.T) {
		pod := hostile(rt, set)
		r := Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: set}
		verify := func(pod map[string]any) string {
			r := r
			r.Pod = pod
			verified, err := NewPipeline(Config{}).Verify(t.Context(), r)
			if err != nil {
				rt.Fatal(err)
			}
			return verified.Message
		}
		if len(unreached(pod)) > 0 && len(verify(pod)) == 0 {
			rt.Fatalf("verification passes a pod as it came, with %v", unreached(pod))
		}
		out, err := NewPipeline(Config{}).Inject(t.Context(), r)
		if err != nil {
			rt.Fatal(err)
		}
		if !out.Allowed {
			refused++
			return
		}
		admitted++
		if got := unreached(out.Pod); len(got) > 0 {
			rt.Fatalf("not reached: %v", got)
		}
		forged := pod["metadata"].(map[string]any)["annotations"].(map[string]any)["pillion.dev/status"] != nil
		if wrong := verify(out.Pod); len(wrong) > 0 && !forged {
			rt.Fatalf("the verification refuses the pod that the injection gave: %q", wrong)
		}
		r.Pod = out.Pod
		again, err := NewPipeline(Config{}).Inject(t.Context(), r)
		if text := patch.Marshal(again.Operations); err != nil || !again.Allowed || len(again.Operations) > 0 {
			rt.Fatalf("the second call: %v %s %s", err, again.Message, text)
		}
		later := changedLater(rt, out.Pod)
		if len(unreached(later)) > 0 && len(verify(later)) == 0 {
			rt.Fatalf("verification passes a later container: %v", unreached(later))
		}
	})
	if admitted == 0 || refused == 0 {
		t.Errorf("%d admitted, %d refused: want some of both", admitted, refused)
	}
}

// digestOf is the digest of the variable that egress gives.
func digestOf(value string) string {
	return record.Digest(podschema.At("spec.containers[].env[]"), map[string]any{"name": "HTTPS_PROXY", "value": value})
}

// changedLater changes or adds one container of an injected pod.
func changedLater(t *rapid.T, pod map[string]any) map[string]any {
	text, _ := json.Marshal(pod)
	pod = object(string(text))
	spec := pod["spec"].(map[string]any)
	list := rapid.SampledFrom([]string{"containers", "initContainers"}).Draw(t, "later in")
	items, _ := spec[list].([]any)
	i := rapid.IntRange(0, len(items)).Draw(t, "later")
	if i == len(items) {
		spec[list] = append(items, map[string]any{"name": rapid.SampledFrom([]string{"late", "for-late"}).Draw(t, "name"), "image": "evil:1"})
		return pod
	}
	change := rapid.SampledFrom([]string{`{"image":"evil:1"}`, `{"command":["evil"]}`, `{"env":[]}`, `{"securityContext":{"privileged":true}}`, `{"env":[{"name":"HTTPS_PROXY","value":"evil"}]}`}).Draw(t, "change")
	maps.Copy(items[i].(map[string]any), object(change))
	return pod
}

// TestHonestPodsPassARequiredTemplate: sidecars of other templates are kept, though other
// webhooks changed them or an older version of their template made them. A call after
// that changes nothing.
func TestHonestPodsPassARequiredTemplate(t *testing.T) {
	token := object(tokenMount)
	mounted := func(pod map[string]any) map[string]any {
		text, _ := json.Marshal(pod)
		pod = podOf(t, string(text))
		spec := pod["spec"].(map[string]any)
		volumes, _ := spec["volumes"].([]any)
		if !slices.ContainsFunc(volumes, merge.IsTokenVolume) {
			spec["volumes"] = append(volumes, object(tokenVolume))
		}
		for _, list := range []string{"initContainers", "containers"} {
			for _, c := range itemsOf(pod, list) {
				mounts, _ := c["volumeMounts"].([]any)
				c["volumeMounts"] = append(merge.WithoutToken(mounts), token)
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
	asItIs := func(pod map[string]any) map[string]any { return pod }
	for _, c := range []struct {
		why            string
		before, change func(map[string]any) map[string]any
		later          *templates.Set
		image          string
		proxied        bool // deny's sidecar is reached by egress
		unedited       bool // the second call changes nothing
	}{
		{"nothing happens in between", asItIs, asItIs, hostileSet(t), "deny:1", false, true},
		{"nothing happens to a pod with its token", mounted, asItIs, hostileSet(t), "deny:1", false, true},
		{"the API server sets defaults in the sidecars", mounted, mounted, hostileSet(t), "deny:1", false, true},
		// The record learns that the sidecars have the token.
		{"the API server mounts tokens only now", asItIs, mounted, hostileSet(t), "deny:1", false, false},
		{"images come from a mirror", asItIs, mirrored, hostileSet(t), "mirror.example.com/deny:1", true, false},
		{"images of a pod with its token come from a mirror", mounted, mirrored, hostileSet(t), "mirror.example.com/deny:1", true, false},
		// The older version's sidecar is not as the template renders it: the required
		// template reaches it.
		{"the template has a newer version", asItIs, mounted, hostileSet(t, "deny:1", "deny:2"), "deny:2", true, false},
		// No record confirms the sidecar any more: the required template reaches it.
		{"the record is lost", asItIs, func(pod map[string]any) map[string]any {
			return patched(t, pod, `[{"op":"remove","path":"/metadata/annotations/pillion.dev~1status"}]`)
		}, hostileSet(t), "deny:1", true, false},
	} {
		pod := c.before(hostilePod(t, "deny,over,keep,write,each", "", `{"initContainers":[{"name":"migrate","image":"m:1"}],"containers":[{"name":"web","image":"i"},{"name":"over","image":"own:1"}]}`))
		first, wrong := admitHostile(t, hostileSet(t), pod)
		if !first.Allowed || wrong != "" {
			t.Fatalf("the first call: %s %s", first.Message, wrong)
		}
		second, wrong := admitHostile(t, c.later, c.change(first.Pod))
		if !second.Allowed || wrong != "" || c.unedited && len(second.Operations) > 0 {
			text := patch.Marshal(second.Operations)
			t.Errorf("%s: %s; verified: %q; operations %s", c.why, second.Message, wrong, text)
			continue
		}
		deny := containersByName(second.Pod)["initContainers"]["deny"]
		if env, _ := deny["env"].([]any); deny["image"] != c.image || (len(env) > 0) != c.proxied {
			t.Errorf("%s: the sidecar is %v", c.why, deny)
		}
		third, wrong := admitHostile(t, c.later, second.Pod)
		if !third.Allowed || wrong != "" || len(third.Operations) > 0 {
			text := patch.Marshal(third.Operations)
			t.Errorf("%s: the third call: %s; verified: %q; operations %s", c.why, third.Message, wrong, text)
		}
	}
}

// Of two templates that contradict each other one is left out. The sidecar of the other
// counts as Pillion's all the same.
func TestASkippedTemplateLeavesTheOthersSidecarConfirmed(t *testing.T) {
	set := hostileSet(t, "name: skip, image", "name: keep, image")
	pod := hostilePod(t, "keep,skip", "", `{"containers":[{"name":"web","image":"i"}]}`)
	first, wrong := admitHostile(t, set, pod)
	if !first.Allowed || wrong != "" || !strings.Contains(strings.Join(first.Warnings, " "), "without skip") {
		t.Fatalf("%s %q, warnings %q", first.Message, wrong, first.Warnings)
	}
	if second, wrong := admitHostile(t, set, first.Pod); !second.Allowed || wrong != "" || len(second.Operations) > 0 {
		t.Errorf("the second call: %s %q, %v", second.Message, wrong, second.Operations)
	}
}

// A sidecar that a required template left alone cannot become something else later.
func TestASidecarThatARequiredTemplateLeftAloneKeepsItsImage(t *testing.T) {
	set := hostileSet(t)
	plain := `{"containers":[{"name":"web","image":"i"},{"name":"two","image":"i"}]}`
	injected, _ := admitHostile(t, set, hostilePod(t, "deny", "", plain))
	older := hostilePod(t, "", "", `{"initContainers":[{"name":"deny","image":"deny:1","restartPolicy":"Always"}],"containers":[{"name":"web","image":"i"}]}`)
	relabelled := `{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"remove","path":"/metadata/annotations"}`
	at := slices.IndexFunc(itemsOf(injected.Pod, "initContainers"), func(c map[string]any) bool { return nameOf(c) == "deny" })
	for _, c := range []struct {
		why    string
		old    map[string]any
		change string
		says   string
	}{
		{"the app's image", injected.Pod, `{"op":"replace","path":"/spec/containers/0/image","value":"i:2"}`, ""},
		{"the sidecar's image", injected.Pod, fmt.Sprintf(`{"op":"replace","path":"/spec/initContainers/%d/image","value":"evil:1"}`, at), "template egress: the container deny would have another image"},
		{"the sidecar's image, when the pod says nothing any more", patched(t, injected.Pod, "["+relabelled+"]"), fmt.Sprintf(`{"op":"replace","path":"/spec/initContainers/%d/image","value":"evil:1"}`, at), "the container deny would have another image"},
		{"the image of a pod from before the template", older, `{"op":"replace","path":"/spec/initContainers/0/image","value":"deny:2"}`, ""},
		{"labels", injected.Pod, `{"op":"add","path":"/metadata/labels","value":{"a":"b"}}`, ""},
	} {
		verified, err := NewPipeline(Config{}).Verify(t.Context(), Request{
			Operation: "UPDATE", Pod: patched(t, c.old, "["+c.change+"]"), Old: c.old, Namespace: templates.Namespace{Name: "shop"}, Templates: set,
		})
		if got := verified.Message; err != nil || c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: %v %q; want %q", c.why, err, got, c.says)
		}
	}
}
