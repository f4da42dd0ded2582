package merge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/templates/podschema"
)

const statusKey = "pillion.dev/status"

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decoding %s: %v", b, err)
	}
	return v
}

const basePod = `
metadata: {labels: {app: web}, annotations: {own: x}}
spec:
  hostname: own
  nodeSelector: {disk: ssd}
  securityContext: {runAsUser: 1}
  tolerations: [{key: a, operator: Exists}]
  volumes: [{name: data, emptyDir: {}}]
  initContainers: [{name: own, image: own}]
  containers:
  - name: web
    image: web
    env: [{name: A, value: own}, {name: B, value: own}]
    volumeMounts: [{name: data, mountPath: /data}]
    livenessProbe: {exec: {command: [x]}, periodSeconds: 5}
    resources: {limits: {cpu: 1}, requests: {cpu: 1}}
`

// wishes are parts of fragments. Each is about the pod's own items or new ones, so
// that it means the same whichever template comes first.
var wishes = []string{
	"metadata: {labels: {app: %}}", "metadata: {labels: {new: %}}", "metadata: {labels: {$unset: [app]}}", "metadata: {annotations: {own: %}}",
	"spec: {hostname: %}", "spec: {hostname: own}", "spec: {$unset: [hostname]}", "spec: {dnsPolicy: ClusterFirst}", "spec: {dnsPolicy: None}", "spec: {subdomain: %}",
	"spec: {nodeSelector: {disk: %, zone: %}}", "spec: {nodeSelector: {$patch: delete}}", "spec: {securityContext: {runAsUser: 2, fsGroup: 3}}",
	"spec: {securityContext: {$patch: replace, fsGroup: 3}}", "spec: {tolerations: [{key: b}]}", "spec: {tolerations: [{key: a, operator: Exists}]}",
	"spec: {volumes: [{name: data, hostPath: {path: /}}]}", "spec: {volumes: [{name: new, configMap: {name: %}}]}", "spec: {volumes: [{name: data, $patch: delete}]}",
	"spec: {initContainers: [{name: side, image: %}]}", "spec: {initContainers: [{name: own, image: own}]}", "spec: {initContainers: [{name: own, args: [%]}]}",
	"spec: {containers: [{name: web, env: [{name: A, value: %}]}]}", "spec: {containers: [{name: web, env: [{name: A, value: %, $onConflict: Overwrite}]}]}",
	"spec: {containers: [{name: own, env: [{name: ANYWHERE, value: %}]}]}", "spec: {initContainers: [{name: web, env: [{name: ANYWHERE, value: %}]}]}",
	"spec: {containers: [{name: web, env: [{name: A, $patch: delete}]}]}", "spec: {containers: [{name: web, env: [{name: NEW, value: %}]}]}",
	"spec: {containers: [{name: web, volumeMounts: [{name: data, mountPath: /%}, {name: %, mountPath: /data}]}]}",
	"spec: {containers: [{name: web, livenessProbe: {httpGet: {port: 1}}}]}", "spec: {containers: [{name: web, livenessProbe: {$unset: [exec], httpGet: {port: 1}}}]}",
	"spec: {containers: [{name: web, livenessProbe: {periodSeconds: 7}}]}", "spec: {containers: [{name: web, readinessProbe: {httpGet: {port: 2, path: /%}}}]}",
	"spec: {containers: [{name: web, resources: {limits: {cpu: 2, memory: 1Gi}}}]}", "spec: {containers: [{name: web, resources: {requests: {cpu: 1m}}}]}",
}

func drawFragment(t *rapid.T, tb testing.TB, name string) Fragment {
	f := Fragment{Template: name, Object: map[string]any{}, OnConflict: rapid.SampledFrom([]string{Deny, KeepPod, Overwrite, Overwrite}).Draw(t, "onConflict "+name)}
	for _, wish := range rapid.SliceOfNDistinct(rapid.SampledFrom(wishes), 1, 3, rapid.ID).Draw(t, "wishes of "+name) {
		value := rapid.SampledFrom([]string{"x", "x", "y"}).Draw(t, "value")
		combine(f.Object, parse(tb, strings.ReplaceAll(wish, "%", value)))
	}
	return f
}

// combine puts parts of a fragment together; the later one wins.
func combine(into, from map[string]any) {
	for name, v := range from {
		switch have := into[name].(type) {
		case map[string]any:
			combine(have, v.(map[string]any))
		case []any:
			more := v.([]any)
			i := slices.IndexFunc(have, func(h any) bool {
				return objectOf(h)["name"] != nil && objectOf(h)["name"] == objectOf(more[0])["name"]
			})
			if i >= 0 {
				combine(have[i].(map[string]any), more[0].(map[string]any))
			} else {
				into[name] = append(have, more...)
			}
		default:
			into[name] = v
		}
	}
}

// sortedLists is the value with its lists in one order: the order of items that two
// templates add is that of the templates.
func sortedLists(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := map[string]any{}
		for name := range maps.Keys(v) {
			c[name] = sortedLists(v[name])
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = sortedLists(v[i])
		}
		slices.SortFunc(c, func(a, b any) int { return bytes.Compare(podschema.Encode(a), podschema.Encode(b)) })
		return c
	default:
		return v
	}
}

// Whether two templates disagree, and what they give a pod together, does not depend
// on which of them comes first.
func TestTheOrderOfTemplatesDecidesNothingButTheOrderOfItems(t *testing.T) {
	planned, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		pod := parse(t, basePod)
		before := string(podschema.Encode(pod))
		a, b := drawFragment(rt, t, "a"), drawFragment(rt, t, "b")
		one, err := Merge(t.Context(), pod, []Fragment{a, b}, statusKey)
		other, turned := Merge(t.Context(), pod, []Fragment{b, a}, statusKey)
		if string(podschema.Encode(pod)) != before {
			rt.Fatalf("the base pod was changed: %s", podschema.Encode(pod))
		}
		describe := fmt.Sprintf("a %s %s\nb %s %s", a.OnConflict, podschema.Encode(a.Object), b.OnConflict, podschema.Encode(b.Object))
		var fault *FragmentError
		if errors.As(err, &fault) || errors.As(turned, &fault) {
			return // a fragment that combine put together badly
		}
		if (err == nil) != (turned == nil) {
			rt.Fatalf("a before b: %v\nb before a: %v\n%s", err, turned, describe)
		}
		if err != nil {
			refused++
			return
		}
		planned++
		if x, y := podschema.Encode(sortedLists(one.Pod)), podschema.Encode(sortedLists(other.Pod)); !bytes.Equal(x, y) {
			rt.Fatalf("a before b: %s\nb before a: %s\n%s", x, y, describe)
		}
	})
	if planned == 0 || refused == 0 {
		t.Errorf("%d planned, %d refused: the law is not tried", planned, refused)
	}
}

func TestAPlanNamesTheTemplatesThatGiveSomething(t *testing.T) {
	plan, err := Merge(t.Context(), parse(t, basePod), []Fragment{
		{Template: "must", Required: true, Object: parse(t, "metadata: {labels: {new: x}}")},
		{Template: "agrees", Object: parse(t, "spec: {hostname: own}")},
		{Template: "gives", Object: parse(t, "metadata: {labels: {new: x}}")},
		{Template: "keeps", Object: parse(t, "metadata: {labels: {app: x}}")},
		{Template: "default", Object: parse(t, "spec: {dnsPolicy: ClusterFirst}")},
	}, statusKey)
	if got := strings.Join(plan.Templates(), " "); err != nil || got != "gives must" {
		t.Errorf("%s, %v", got, err)
	}
	if len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], "template keeps: metadata.labels.app") {
		t.Errorf("warnings %q", plan.Warnings)
	}
}

func TestARequiredTemplateLeavesNoValueOfThePodAlone(t *testing.T) {
	for _, object := range []string{
		"metadata: {labels: {app: x}}", "metadata: {annotations: {own: y}}", "spec: {containers: [{name: web, env: [{name: A, value: x}]}]}",
		"spec: {containers: [{name: web, volumeMounts: [{name: other, mountPath: /data}]}]}",
	} {
		f := Fragment{Template: "t", Object: parse(t, object)}
		if _, err := Merge(t.Context(), parse(t, basePod), []Fragment{f}, statusKey); err != nil {
			t.Errorf("%s: not required: %v", object, err)
		}
		f.Required = true
		var conflict *ConflictError
		if _, err := Merge(t.Context(), parse(t, basePod), []Fragment{f}, statusKey); !errors.As(err, &conflict) {
			t.Errorf("%s: required: %v", object, err)
		}
	}
}

// Items of required templates stand in front of all others that want to be first.
func TestRequiredItemsStandFirst(t *testing.T) {
	fragment := func(name string, required bool) Fragment {
		return Fragment{Template: name, Required: required, Object: parse(t, "spec: {initContainers: [{name: "+name+", image: x, $position: First}]}")}
	}
	plan, err := Merge(t.Context(), parse(t, basePod), []Fragment{fragment("a", false), fragment("p", true), fragment("b", false), fragment("q", true)}, statusKey)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	items, _ := objectOf(plan.Pod["spec"])["initContainers"].([]any)
	for _, c := range items {
		names = append(names, objectOf(c)["name"].(string))
	}
	if got := strings.Join(names, " "); got != "p q a b own" {
		t.Errorf("init containers %s", got)
	}
}

// A list has what templates put at its end in the templates' order, required or not.
func TestItemsStandInTheTemplatesOrderWhetherRequiredOrNot(t *testing.T) {
	plain := "spec: {containers: [{name: %, image: x}], initContainers: [{name: %-i, image: x}], volumes: [{name: %, emptyDir: {}}]}"
	tests := map[string]struct {
		pod, object string
		// The fragments, in their order. One with a capital letter is required.
		order string
		more  map[string]string // by fragment: its object instead
		want  string            // containers
	}{
		"others before and behind":  {order: "a B c D e", want: "app own a b c d e"},
		"required first":            {order: "A b", want: "app own a b"},
		"required last":             {order: "a B", want: "app own a b"},
		"an empty list":             {pod: "spec: {}", order: "A b C d", want: "a b c d"},
		"first is another question": {order: "a B c", more: map[string]string{"c": "spec: {containers: [{name: c, image: x, $position: First}, {name: c2, image: x}]}"}, want: "c app own a b c2"},
		"first of required in front": {order: "a B c D", more: map[string]string{
			"a": "spec: {containers: [{name: a, image: x, $position: First}]}", "D": "spec: {containers: [{name: d, image: x, $position: First}]}",
		}, want: "d a app own b c"},
		"beside an anchor": {order: "A b C d", more: map[string]string{"b": "spec: {containers: [{name: b, image: x, $position: {before: d}}]}"}, want: "app own a c b d"},
		"in front of two that stand together": {order: "A b", more: map[string]string{
			"b": "spec: {containers: [{name: b, image: x, $position: {before: b2}}, {name: b2, image: x}]}",
		}, want: "app own a b b2"},
		"an anchor far from the end": {order: "A b", more: map[string]string{
			"b": "spec: {containers: [{name: b, image: x, $position: {before: app}}, {name: b2, image: x}]}",
		}, want: "b app own a b2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var fragments []Fragment
			for f := range strings.FieldsSeq(test.order) {
				name := strings.ToLower(f)
				object, ok := test.more[f]
				if !ok {
					object = strings.ReplaceAll(plain, "%", name)
				}
				fragments = append(fragments, Fragment{Template: name, Required: f != name, Object: parse(t, object)})
			}
			if test.pod == "" {
				test.pod = "spec: {containers: [{name: app}, {name: own}]}"
			}
			plan, err := Merge(t.Context(), parse(t, test.pod), fragments, statusKey)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			items, _ := objectOf(plan.Pod["spec"])["containers"].([]any)
			for _, c := range items {
				names = append(names, objectOf(c)["name"].(string))
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("containers %s, want %s", got, test.want)
			}
		})
	}
}
