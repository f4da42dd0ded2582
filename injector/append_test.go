package injector

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/record/recordtest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// guarded is required, and appends to a variable and an annotation.
const guarded = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: guarded}
spec:
  match: {namespaceSelector: {matchLabels: {team: shop}}}
  required: true
  inject:
    metadata: {annotations: {ports: {$append: ",", value: "8080"}}}
    spec: {containers: [{$each: App, env: [{name: JTO, $append: " ", value: "-agent"}, {name: SET, value: plain}]}]}
`

// also is not required, and appends to the same, and to what guarded sets.
const also = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: helper}
spec:
  parameters: [{name: to, type: string, default: JTO}]
  inject: {spec: {containers: [{$each: App, env: [{name: "${params.to}", $append: " ", value: "-helper"}]}]}}
`

func podWithEnv(t testing.TB, env, annotations string) map[string]any {
	return podOf(t, `{"metadata":{"name":"web","annotations":{`+annotations+`}},"spec":{"containers":[{"name":"app","image":"app:1","env":[`+env+`]}]}}`)
}

func TestARequiredTextIsThereInTheEnd(t *testing.T) {
	const source = `{"name":"JTO","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`
	set := templatestest.Set(t, guarded, also)
	for _, c := range []struct{ why, env, change, says string }{
		{"nothing is there", ``, `[]`, ""},
		{"a value", `{"name":"JTO","value":"-Xmx1g"}`, `[]`, ""},
		{"the text is there", `{"name":"JTO","value":"-agent -helper"}`, `[]`, ""},
		{"a source", source, `[]`, ""},
		{"twice", `{"name":"JTO","value":"x"},{"name":"JTO","value":"y"}`, `[]`, ""},
		{"the source is another", source, `[{"op":"replace","path":"/spec/containers/0/env/0/valueFrom/fieldRef/fieldPath","value":"metadata.name"}]`, ""},
		{"another in front", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"add","path":"/spec/containers/0/env/0","value":{"name":"JTO","value":"x"}}]`, ""},
		{"another behind", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"JTO","value":"x"}}]`, `spec.containers[name=app].env[name=JTO] is {"name":"JTO","value":"`},
		{"a part is gone", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"-Xmx1g -helper"}]`, `spec.containers[name=app].env[name=JTO] is {"name":"JTO","value":"-Xmx1g -helper"}; must be {"name":"JTO","value":"-Xmx1g -helper -agent"}`},
		{"something is appended", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"-Xmx1g -helper -agent -more"}]`, `another webhook changed it, which`},
		{"the second item is gone", source, `[{"op":"remove","path":"/spec/containers/0/env/1"}]`, `spec.containers[name=app].env[name=JTO] is {"name":"JTO","valueFrom"`},
		{"the items change places", source, `[{"op":"move","from":"/spec/containers/0/env/1","path":"/spec/containers/0/env/0"}]`, `spec.containers[name=app].env[name=JTO] is {"name":"JTO","valueFrom"`},
		{"both are gone", source, `[{"op":"remove","path":"/spec/containers/0/env"}]`, `spec.containers[name=app].env[name=JTO] is missing`},
		{"the annotation is gone", ``, `[{"op":"replace","path":"/metadata/annotations/ports","value":"80"}]`, `metadata.annotations.ports is "80"; must be "80,8080"`},
	} {
		injected := injectRequired(t, set, podWithEnv(t, c.env, `"ports":"80"`))
		got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: patched(t, injected, c.change)}, nil)
		wantSays(t, c.why, got, c.says)
	}
}

func TestWhatARequiredTemplateSetsIsNotAppendedTo(t *testing.T) {
	set := templatestest.Set(t, guarded, also)
	for _, value := range []string{"", "own", "plain"} {
		env := `{"name":"SET","value":"` + value + `"}`
		if value == "" {
			env = ""
		}
		out := injectIn(t, shop, set, podWithEnv(t, env, `"helper.pillion.dev/to":"SET"`))
		if out.Allowed || out.Code != reason.Conflict {
			t.Fatalf("%q: %s %s", value, out.Code, out.Message)
		}
		if want := `template helper conflicts at spec.containers[name=app].env[name=SET]: template guarded has {"name":"SET","value":"plain"}, the template sets "-helper" (that template is required, so its values cannot be changed)`; value != "own" && !strings.Contains(out.Message, want) {
			t.Errorf("%q: %s", value, out.Message)
		}
	}
}

// Whatever record a tenant writes, and whatever the variables are: a pod that passes has
// the required text, as a part of the item that counts.
func TestAForgedRecordDoesNotHideAMissingText(t *testing.T) {
	set := templatestest.Set(t, guarded, also)
	passed := 0
	rapid.Check(t, func(rt *rapid.T) {
		items := rapid.SliceOfN(rapid.SampledFrom([]string{`{"name":"JTO","value":"v"}`, `{"name":"JTO","value":"v -helper -agent"}`, `{"name":"JTO","value":"$(JTO) -helper -agent"}`, `{"name":"JTO","value":"-agent"}`,
			`{"name":"JTO"}`, `{"name":"JTO","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`, `{"name":"OTHER","value":"-agent"}`, `{"name":"SET","value":"plain"}`}), 0, 4).Draw(rt, "items")
		pod := podWithEnv(t, strings.Join(items, ","), rapid.SampledFrom([]string{``, `"ports":"8080"`, `"ports":"18080"`}).Draw(rt, "ports"))
		variable, _ := podschema.At("spec.containers[].env").Identity()
		const env, note = "/spec/containers/name=app/env/name=JTO", "/metadata/annotations/ports"
		forged := recordtest.Forged{Templates: map[string]string{"guarded": "x"}, Was: map[string]any{}, Wrote: map[string]string{}, Behind: map[string]int{}, Removed: map[string][]record.Removed{}}
		if rapid.Bool().Draw(rt, "wrote") {
			var item any
			if len(items) > 0 {
				item = map[string]any(podOf(t, rapid.SampledFrom(items).Draw(rt, "digest of")))
			}
			forged.Wrote[env] = record.Digest(variable.Elem, item)
		}
		if rapid.Bool().Draw(rt, "was") {
			forged.Was[env] = map[string]any{"name": "JTO", "value": rapid.SampledFrom([]string{"-agent", "v", "$(JTO) -agent -helper"}).Draw(rt, "original")}
			forged.Was[note] = rapid.SampledFrom([]string{"8080", ""}).Draw(rt, "note")
		}
		if n := rapid.IntRange(0, 3).Draw(rt, "behind"); n > 0 {
			forged.Behind[env] = n
		}
		if rapid.Bool().Draw(rt, "added") {
			forged.Added = []string{env, note}
		}
		if rapid.Bool().Draw(rt, "removed") {
			forged.Removed["/spec/containers/name=app/env"] = []record.Removed{{Value: map[string]any{"name": "JTO", "value": "-agent"}}}
		}
		pod["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey] = forged.Text()
		out, err := NewPipeline(Config{}).Inject(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: shop, Templates: set})
		if err != nil {
			rt.Fatal(err)
		}
		for when, final := range map[string]map[string]any{"injected": out.Pod, "as it came": pod} {
			if when == "injected" && !out.Allowed || verifyRequired(t, set, Request{Operation: "CREATE", Pod: final}, nil) != "" {
				continue
			}
			passed++
			if value := lastValue(final, "JTO"); !hasPart(value, "-agent", " ") {
				rt.Fatalf("%s: JTO is %q\nof %s", when, value, encode(t, final))
			}
			ports, _ := final["metadata"].(map[string]any)["annotations"].(map[string]any)["ports"].(string)
			if !hasPart(ports, "8080", ",") {
				rt.Fatalf("%s: ports are %q", when, ports)
			}
		}
		if out.Allowed {
			again := injectIn(t, shop, set, out.Pod)
			if len(again.Operations) > 0 {
				rt.Fatalf("a second call changes the pod: %v %s\n%s\nby %s", err, again.Message, encode(t, out.Pod), patch.Marshal(again.Operations))
			}
		}
	})
	if passed == 0 {
		t.Fatal("no pod passed: nothing was tested")
	}
}

// A record may say how many items stand in front of one that the pod does not have. That means
// nothing: what counts is the pod's last item, and the second call knows it again.
func TestAForgedRecordAboutAnItemThatIsNotThereChangesNothing(t *testing.T) {
	set := templatestest.Set(t, guarded, also)
	const env = "/spec/containers/name=app/env/name=JTO"
	for _, behind := range []int{2, 3} {
		pod := podWithEnv(t, `{"name":"JTO","value":"v -helper -agent"},{"name":"JTO","value":"v"}`, ``)
		forged := recordtest.Forged{Templates: map[string]string{"guarded": "x"}, Was: map[string]any{env: map[string]any{"name": "JTO", "value": "-agent"}}, Behind: map[string]int{env: behind}}
		pod["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey] = forged.Text()
		for call := range 2 {
			out := injectIn(t, shop, set, pod)
			if !out.Allowed || call > 0 && len(out.Operations) > 0 {
				t.Fatalf("behind %d, call %d: %s %s", behind, call+1, out.Message, patch.Marshal(out.Operations))
			}
			pod = out.Pod
		}
	}
}

func lastValue(pod map[string]any, name string) string {
	value := ""
	for _, c := range itemsOf(pod, "containers") {
		items, _ := c["env"].([]any)
		for _, item := range items {
			if v := item.(map[string]any); v["name"] == name {
				value = fmt.Sprint(v["value"])
			}
		}
	}
	return value
}

func hasPart(value, text, separator string) bool {
	for _, part := range strings.Split(value, separator) {
		if part == text {
			return true
		}
	}
	return false
}
