package injector

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/reason"
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
	set := templatestest.Set(t, guarded, also)
	for _, c := range []struct{ why, env, change, says string }{
		{"nothing is there", ``, `[]`, ""},
		{"a value", `{"name":"JTO","value":"-Xmx1g"}`, `[]`, ""},
		{"the text is there", `{"name":"JTO","value":"-agent -helper"}`, `[]`, ""},
		{"twice", `{"name":"JTO","value":"x"},{"name":"JTO","value":"y"}`, `[]`, ""},
		{"another in front", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"add","path":"/spec/containers/0/env/0","value":{"name":"JTO","value":"x"}}]`, ""},
		{"another behind", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"JTO","value":"x"}}]`, `spec.containers[name=app].env[name=JTO] is {"name":"JTO","value":"x"}; must be {"name":"JTO","value":"x -agent"}`},
		{"a part is gone", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"-Xmx1g -helper"}]`, `spec.containers[name=app].env[name=JTO] is {"name":"JTO","value":"-Xmx1g -helper"}; must be {"name":"JTO","value":"-Xmx1g -helper -agent"}`},
		{"a part becomes another", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"-Xmx1g -helper -agents"}]`, `must be {"name":"JTO","value":"-Xmx1g -helper -agents -agent"}`},
		{"something is appended", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"-Xmx1g -helper -agent -more"}]`, ""},
		{"a source takes its place", `{"name":"JTO","value":"-Xmx1g"}`, `[{"op":"replace","path":"/spec/containers/0/env/0","value":{"name":"JTO","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}}]`, "the variable has valueFrom"},
		{"all are gone", ``, `[{"op":"remove","path":"/spec/containers/0/env"}]`, `spec.containers[name=app].env[name=JTO] is missing`},
		{"the annotation is gone", ``, `[{"op":"replace","path":"/metadata/annotations/ports","value":"80"}]`, `metadata.annotations.ports is "80"; must be "80,8080"`},
	} {
		injected := injectRequired(t, set, podWithEnv(t, c.env, `"ports":"80"`))
		got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: patched(t, injected, c.change)}, nil)
		wantSays(t, c.why, got, c.says)
	}
	out := injectIn(t, shop, set, podWithEnv(t, `{"name":"JTO","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`, ``))
	wantSays(t, "a source", out.Message, "set a variable of another name, and name both where it is used")
}

// A required value is compared in the end: whoever joins a text to it contradicts it, whatever the order.
func TestWhatARequiredTemplateSetsIsNotAppendedTo(t *testing.T) {
	set := templatestest.Set(t, guarded, also)
	for env, says := range map[string]string{
		``:                               `env[name=SET] is {"name":"SET","value":"-helper"}; must be {"name":"SET","value":"plain"}, and template helper sets it so`,
		`{"name":"SET","value":"plain"}`: `env[name=SET] is {"name":"SET","value":"plain -helper"}; must be {"name":"SET","value":"plain"}, and template helper sets it so`,
		`{"name":"SET","value":"own"}`:   `must be {"name":"SET","value":"plain"}`,
	} {
		out := injectIn(t, shop, set, podWithEnv(t, env, `"helper.pillion.dev/to":"SET"`))
		if out.Allowed || out.Code != reason.Conflict || !strings.Contains(out.Message, says) {
			t.Errorf("%q: %s %s", env, out.Code, out.Message)
		}
	}
}

// Whatever record a tenant writes, and whatever the variables are: a pod that passes has the required text, as a
// part of the item that counts.
func TestAForgedRecordDoesNotHideAMissingText(t *testing.T) {
	set := templatestest.Set(t, guarded, also)
	items := []string{`{"name":"JTO","value":"v"}`, `{"name":"JTO","value":"v -helper -agent"}`, `{"name":"JTO","value":"-agent"}`, `{"name":"JTO"}`, `{"name":"JTO","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`, `{"name":"OTHER","value":"-agent"}`, `{"name":"SET","value":"plain"}`}
	passed := 0
	rapid.Check(t, func(rt *rapid.T) {
		env := rapid.SliceOfN(rapid.SampledFrom(items), 0, 4).Draw(rt, "items")
		pod := podWithEnv(t, strings.Join(env, ","), rapid.SampledFrom([]string{``, `"ports":"8080"`, `"ports":"18080"`}).Draw(rt, "ports"))
		entry := func(label string, values ...any) map[string]any {
			e := map[string]any{"sum": rapid.SampledFrom([]string{"", "0", podschema.Digest(podschema.At("spec.containers[].env[]"), object(rapid.SampledFrom(items).Draw(rt, label)))}).Draw(rt, label)}
			if rapid.Bool().Draw(rt, label) {
				e["was"] = rapid.SampledFrom(values).Draw(rt, label)
			}
			if rapid.IntRange(0, 3).Draw(rt, label) == 0 {
				e["gone"] = []any{[]any{0, map[string]any{"name": "JTO", "value": "-agent"}}}
			}
			return e
		}
		record, _ := json.Marshal(map[string]any{"v": 1, "templates": map[string]any{"guarded": "x"}, "set": map[string]any{
			"spec.containers[name=app].env[name=JTO]": entry("variable", nil, map[string]any{"name": "JTO", "value": "-agent"}, map[string]any{"name": "JTO", "value": "v"}),
			"metadata.annotations[ports]":             entry("annotation", nil, "8080", ""),
		}})
		pod["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey] = string(record)
		out := injectIn(t, shop, set, pod)
		for when, final := range map[string]map[string]any{"injected": out.Pod, "as it came": pod} {
			if when == "injected" && !out.Allowed || verifyRequired(t, set, Request{Operation: "CREATE", Pod: final}, nil) != "" {
				continue
			}
			passed++
			if value := lastValue(final, "JTO"); !slices.Contains(strings.Split(value, " "), "-agent") {
				rt.Fatalf("%s: JTO is %q\nof %s", when, value, encode(t, final))
			}
			if ports := fmt.Sprint(podschema.LookUp(final, []string{"metadata", "annotations", "ports"})); !slices.Contains(strings.Split(ports, ","), "8080") {
				rt.Fatalf("%s: ports are %q", when, ports)
			}
		}
	})
	if passed == 0 {
		t.Fatal("no pod passed: nothing was tested")
	}
}

func lastValue(pod map[string]any, name string) string {
	value := ""
	for _, item := range listOfAny(itemsOf(pod, "containers")[0]["env"]) {
		if mapOf(item)["name"] == name {
			value = fmt.Sprint(mapOf(item)["value"])
		}
	}
	return value
}
