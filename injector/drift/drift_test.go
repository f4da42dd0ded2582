package drift_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/drift"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// setOf compiles templates, given as fields of their specs by their names.
func setOf(t testing.TB, specs map[string]string) *templates.Set {
	t.Helper()
	all := map[string]string{}
	for name, spec := range specs {
		all[name] = "{" + spec + "}"
	}
	return templatestest.Specs(t, all)
}

// sidecar is the spec of a template that adds one container, of the version tag.
func sidecar(name, tag string) string {
	return fmt.Sprintf(`parameters: [{name: level, type: string, default: info}], inject: {spec: {initContainers: [{name: %s, restartPolicy: Always, image: "%s:%s", env: [{name: LEVEL, value: "${params.level}"}]}]}}`, name, name, tag)
}

func newPod(t testing.TB, annotations string) map[string]any {
	t.Helper()
	return fragmenttest.Decode(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","labels":{"app":"web"},"annotations":{`+annotations+`}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`)
}

// asking returns a namespace with the label, whose annotation says what to inject.
func asking(injection, inject string) templates.Namespace {
	ns := templates.Namespace{Name: "shop", Labels: map[string]string{}, Annotations: map[string]string{}}
	if injection != "" {
		ns.Labels["pillion.dev/injection"] = injection
	}
	if inject != "" {
		ns.Annotations["pillion.dev/inject"] = inject
	}
	return ns
}

var pipeline = injector.NewPipeline(injector.Config{ExcludedNamespaces: []string{"kube-system"}})

func injected(t testing.TB, pod map[string]any, ns templates.Namespace, set *templates.Set) map[string]any {
	t.Helper()
	out, err := pipeline.Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: set})
	if err != nil || !out.Allowed {
		t.Fatalf("%v: %s", err, out.Message)
	}
	return out.Pod
}

// live returns what becomes of a pod on a node: the API server, the scheduler, the kubelet
// and others have written to it.
func live(t testing.TB, pod map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	pod = fragmenttest.Decode(t, string(text))
	metadata, _ := pod["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		pod["metadata"] = metadata
	}
	if metadata["name"] == nil {
		metadata["name"] = "web-x7k2p"
	}
	own := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		object, _ := metadata[field].(map[string]any)
		keys := map[string]any{}
		for key := range object {
			keys["f:"+key] = map[string]any{}
		}
		own["f:"+field] = keys
		if object == nil {
			object = map[string]any{}
			metadata[field] = object
		}
		object["operator.example.com/role"] = "primary"
	}
	later := map[string]any{"f:operator.example.com/role": map[string]any{}}
	maps.Copy(metadata, map[string]any{
		"uid": "6a2d1f7e-53c1-4f2c-9a53-6f0a0c8c4b11", "resourceVersion": "812", "creationTimestamp": "2026-01-02T03:04:05Z",
		"managedFields": []any{
			map[string]any{"manager": "kube-controller-manager", "operation": "Update", "time": "2026-01-02T03:04:05Z", "fieldsV1": map[string]any{"f:metadata": own}},
			map[string]any{"manager": "operator", "operation": "Update", "time": "2026-01-02T03:05:00Z", "fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": later, "f:annotations": later}}},
			map[string]any{"manager": "kubelet", "operation": "Update", "subresource": "status", "time": "2026-01-02T03:05:00Z", "fieldsV1": map[string]any{"f:status": map[string]any{}}},
		},
	})
	pod["status"] = map[string]any{"phase": "Running", "podIP": "10.0.0.1"}
	if spec, ok := pod["spec"].(map[string]any); ok {
		spec["nodeName"] = "node-1"
		spec["ephemeralContainers"] = []any{map[string]any{"name": "debugger", "image": "debug:1"}}
	}
	return pod
}

func compare(t testing.TB, pod map[string]any, ns templates.Namespace, set *templates.Set) drift.Comparison {
	t.Helper()
	before, _ := json.Marshal(pod)
	s, err := drift.Comparer{Pipeline: pipeline}.Compare(t.Context(), pod, ns, set)
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(pod); string(after) != string(before) {
		t.Errorf("the comparison changed the pod to\n%s\nfrom\n%s", after, before)
	}
	return s
}

// states returns the states of the templates, as NAME=STATE.
func states(s drift.Comparison) string {
	var all []string
	for _, t := range s.Templates {
		all = append(all, t.Name+"="+string(t.State))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestWhatChangedSinceAPodWasCreatedSaysHowItStands(t *testing.T) {
	old := setOf(t, map[string]string{"side": sidecar("side", "1"), "other": sidecar("other", "1")})
	condition := `matchConditions: [{name: not-web, expression: "pod.metadata.?labels.app != optional.of('web')"}], ` + sidecar("side", "1")
	for name, c := range map[string]struct {
		before, now  templates.Namespace
		annotations  string // of the pod
		set          map[string]string
		want, places string
		code         reason.Code
	}{
		"nothing": {before: asking("enabled", "side"), now: asking("enabled", "side"), want: "side=injected", code: reason.Injected},
		"another version": {before: asking("enabled", "side,other"), now: asking("enabled", "side,other"), set: map[string]string{"side": sidecar("side", "2"), "other": sidecar("other", "1")},
			want: "other=injected side=outdated", places: "spec.initContainers[name=side].image", code: reason.Injected},
		"another sentence in the template": {before: asking("enabled", "side"), now: asking("enabled", "side"), set: map[string]string{"side": "description: new, " + sidecar("side", "1")},
			want: "side=injected", code: reason.Injected},
		"another version without effect on the pod": {before: asking("enabled", "side,other"), now: asking("enabled", "side,other"), set: map[string]string{
			"side": strings.Replace(sidecar("side", "1"), "env: [{", `env: [{$if: "pod.metadata.?labels.?app.orValue('') != 'web'", name: NEW, value: x}, {`, 1), "other": sidecar("other", "1")},
			want: "other=injected side=injected", code: reason.Injected},
		"another version without what it had": {before: asking("enabled", "side,other"), now: asking("enabled", "side,other"), set: map[string]string{
			"side": strings.Replace(sidecar("side", "1"), "env: [{", `env: [{$if: "pod.metadata.?labels.?app.orValue('') != 'web'", `, 1), "other": sidecar("other", "1")},
			want: "other=injected side=outdated", places: "spec.initContainers[name=side]", code: reason.Injected},
		"another version beside one that is dropped": {before: asking("enabled", "side,other"), now: asking("enabled", "side"), set: map[string]string{
			"side": sidecar("side", "2"), "other": sidecar("other", "1")},
			want: "other=dropped side=outdated", places: "spec.initContainers[name=…", code: reason.Injected},
		"a parameter of the namespace": {before: asking("enabled", "side,other"), now: with(asking("enabled", "side,other"), "side.pillion.dev/level", "debug"),
			want: "other=injected side=outdated", places: "spec.initContainers[name=side]", code: reason.Injected},
		"a parameter that the pod sets for itself": {before: asking("enabled", "side"), now: with(asking("enabled", "side"), "side.pillion.dev/level", "debug"),
			annotations: `"side.pillion.dev/level": "warn"`, want: "side=injected", code: reason.Injected},
		"the namespace asks since then":        {before: asking("", ""), now: asking("enabled", "side"), want: "side=missing", places: "spec.initContainers[name=side]…", code: reason.Injected},
		"and the pod opts out":                 {before: asking("", ""), now: asking("enforced", "side"), annotations: `"pillion.dev/inject": "false"`, code: reason.PodOptedOut},
		"and the pod takes it off":             {before: asking("", ""), now: asking("enforced", "side,other"), annotations: `"pillion.dev/inject": "-side"`, want: "other=missing side=not asked", places: "spec.initContainers[name=other]…", code: reason.Injected},
		"the namespace asks for one more":      {before: asking("enabled", "side"), now: asking("enabled", "side,other"), want: "other=missing side=injected", places: "spec.initContainers[name=other]…", code: reason.Injected},
		"the namespace asks for one less":      {before: asking("enabled", "side,other"), now: asking("enabled", "side"), want: "other=dropped side=injected", places: "spec.initContainers[name=other]…", code: reason.Injected},
		"the namespace asks, without a label":  {before: asking("", ""), now: asking("", "side"), code: reason.NotRequested},
		"the namespace asks, and is disabled":  {before: asking("", ""), now: asking("disabled", "side"), code: reason.NamespaceDisabled},
		"the namespace is disabled since then": {before: asking("enabled", "side"), now: asking("disabled", "side"), want: "side=dropped", code: reason.NamespaceDisabled},
		"the pod asks, where nobody else does": {before: asking("", ""), now: asking("", ""), annotations: `"pillion.dev/inject": "side"`, want: "side=injected", code: reason.Injected},
		"the template is gone":                 {before: asking("enabled", "side"), now: asking("enabled", "side"), set: map[string]string{"other": sidecar("other", "1")}, want: "side=refused", code: reason.UnknownTemplate},
		"the template is gone, and nobody asks for it": {before: asking("enabled", "side"), now: asking("enabled", ""), set: map[string]string{"other": sidecar("other", "1")},
			want: "side=dropped", places: "spec.initContainers[name=side]…", code: reason.NotRequested},
		"the template is suspended": {before: asking("enabled", "side"), now: asking("enabled", "side"), set: map[string]string{"side": "suspend: true, " + sidecar("side", "1")},
			want: "side=dropped", places: "spec.initContainers[name=side]…", code: reason.Suspended},
		"the template does not want the pod": {before: asking("", ""), now: asking("enabled", "side"), set: map[string]string{"side": condition}, want: "side=not asked", code: reason.ConditionFalse},
		"a parameter is wrong":               {before: asking("enabled", "side,other"), now: with(asking("enabled", "side,other"), "side.pillion.dev/level", strings.Repeat("x", 40_000)), set: map[string]string{"side": strings.Replace(sidecar("side", "1"), "name: level,", "name: level, maxLength: 9,", 1), "other": sidecar("other", "1")}, want: "other=refused side=refused", code: reason.BadParameter},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(t, c.annotations)
			if _, asks := c.before.Annotations["pillion.dev/inject"]; asks || strings.Contains(c.annotations, `inject": "side`) {
				pod = injected(t, pod, c.before, old)
			}
			set := old
			if c.set != nil {
				set = setOf(t, c.set)
			}
			s := compare(t, live(t, pod), c.now, set)
			if got := states(s); got != c.want || s.Code != c.code || !s.Counts {
				t.Errorf("%s (%s: %s), want %s (%s)", got, s.Code, s.Message, c.want, c.code)
			}
			var places []string
			for _, p := range s.Places {
				places = append(places, p.String())
			}
			if prefix, open := strings.CutSuffix(c.places, "…"); open {
				if len(places) == 0 || slices.ContainsFunc(places, func(p string) bool { return !strings.HasPrefix(p, prefix) }) {
					t.Errorf("the places %q, want all in %s", places, prefix)
				}
			} else if got := strings.Join(places, " "); got != c.places {
				t.Errorf("the places %q, want %q", got, c.places)
			}
		})
	}
}

func with(ns templates.Namespace, key, value string) templates.Namespace {
	ns.Annotations[key] = value
	return ns
}

func TestAPodThatEndsOrMirrorsDoesNotCount(t *testing.T) {
	set := setOf(t, map[string]string{"side": sidecar("side", "1")})
	for name, change := range map[string]func(pod, metadata map[string]any){
		"succeeded":        func(pod, _ map[string]any) { pod["status"] = map[string]any{"phase": "Succeeded"} },
		"failed":           func(pod, _ map[string]any) { pod["status"] = map[string]any{"phase": "Failed"} },
		"is being deleted": func(_, metadata map[string]any) { metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z" },
		"mirrors": func(_, metadata map[string]any) {
			metadata["annotations"] = map[string]any{"kubernetes.io/config.mirror": "x"}
		},
	} {
		pod := live(t, newPod(t, ""))
		if !compare(t, pod, asking("enabled", "side"), set).Has(drift.Missing) {
			t.Fatalf("the pod as it is: %s", states(compare(t, pod, asking("enabled", "side"), set)))
		}
		change(pod, pod["metadata"].(map[string]any))
		if s := compare(t, pod, asking("enabled", "side"), set); s.Counts || len(s.Templates) > 0 {
			t.Errorf("one that %s: %+v", name, s)
		}
	}
}

// An operator that puts a label on running pods selects no template for a new pod.
func TestALabelThatCameAfterTheCreationSelectsNothing(t *testing.T) {
	set := setOf(t, map[string]string{"side": `match: {podSelector: {matchLabels: {operator.example.com/role: primary}}}, ` + sidecar("side", "1")})
	pod := live(t, newPod(t, ""))
	if s := compare(t, pod, asking("enabled", ""), set); s.Has(drift.Missing) {
		t.Errorf("the label came later: %s", states(s))
	}
	fields := pod["metadata"].(map[string]any)["managedFields"].([]any)
	fields[1].(map[string]any)["time"] = "2026-01-02T03:04:05Z"
	if s := compare(t, pod, asking("enabled", ""), set); !s.Has(drift.Missing) {
		t.Errorf("the label was there from the start: %s", states(s))
	}
	fields[0].(map[string]any)["time"], fields[1].(map[string]any)["time"], fields[2].(map[string]any)["time"] = "2026-01-02T04:00:00Z", "2026-01-02T03:05:05Z", "2026-01-02T03:05:05Z"
	if s := compare(t, pod, asking("enabled", ""), set); !s.Has(drift.Missing) {
		t.Errorf("nobody can tell when the label came: %s", states(s))
	}
}

// Whatever namespace and pod say: a pod that passes now stands as it would get it, a template
// that changes is outdated in each pod that has it, and nothing else is, and a pod that says
// "false" lacks nothing.
func TestDriftFollowsTheWebhook(t *testing.T) {
	versions := map[string]*templates.Set{}
	for _, tag := range []string{"1", "2"} {
		versions[tag] = setOf(t, map[string]string{
			"side": sidecar("side", tag), "other": sidecar("other", "1"), "default": "injectByDefault: true, " + sidecar("default", "1"),
			"match":  `match: {podSelector: {matchLabels: {app: web}}}, inject: {metadata: {labels: {mesh: "on"}}}`,
			"extend": `inject: {spec: {containers: [{$each: App, env: [{name: OPTS, value: "-a"}]}]}}`,
		})
	}
	asks := []string{"", "true", "false", "side", "side,other", "other", "extend,side", "default"}
	rapid.Check(t, func(rt *rapid.T) {
		ns := asking("enabled", rapid.SampledFrom(asks).Draw(rt, "namespace"))
		annotations := ""
		says := rapid.SampledFrom(append(asks, "+side", "-side", "+other,-side")).Draw(rt, "pod")
		if says != "" {
			annotations = fmt.Sprintf(`"pillion.dev/inject":%q`, says)
		}
		pod := newPod(t, annotations)
		bare := live(t, pod)
		out, err := pipeline.Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: versions["1"]})
		if err != nil || !out.Allowed {
			rt.Fatalf("%v: %s", err, out.Message)
		}
		running := live(t, out.Pod)
		if s := compare(t, running, ns, versions["1"]); s.Behind() || s.Has(drift.Dropped) || len(s.Places) > 0 {
			rt.Fatalf("nothing changed: %s, places %v", states(s), s.Places)
		}
		s := compare(t, running, ns, versions["2"])
		var has []string
		for _, o := range out.Templates {
			if o.Code == reason.Injected {
				has = append(has, o.Name)
			}
		}
		var want []string
		if slices.Contains(has, "side") {
			want = []string{"side"}
		}
		if got := drift.Named(s.Templates, drift.Outdated); !reflect.DeepEqual(got, want) || s.Has(drift.Missing) {
			rt.Fatalf("side changed: %s, and %v are injected", states(s), has)
		}
		lacks := drift.Named(compare(t, bare, ns, versions["1"]).Templates, drift.Missing)
		slices.Sort(lacks)
		slices.Sort(has)
		if !slices.Equal(lacks, has) || says == "false" && len(lacks) > 0 {
			rt.Fatalf("a bare pod lacks %v, and a new one gets %v", lacks, has)
		}
	})
}
