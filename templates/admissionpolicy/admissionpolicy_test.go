package admissionpolicy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/samples"
)

// inject injects the template into a pod. It returns nil for a pod that Pillion refuses.
func inject(t testing.TB, tmpl *templates.Template, pod map[string]any) map[string]any {
	t.Helper()
	pipeline := injector.NewPipeline(injector.Config{})
	r := injector.Request{
		Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"},
		Templates: templates.NewSet([]templates.Entry{{Name: tmpl.Name(), Template: tmpl}}),
	}
	out, err := pipeline.Inject(t.Context(), r)
	errtest.ExpectNone(t, err)
	if !out.Allowed {
		return nil
	}
	r.Pod = out.Pod
	verified, err := pipeline.Verify(t.Context(), r)
	if err != nil || !verified.Allowed {
		t.Fatalf("Pillion does not accept its own pod: %v %s", err, verified.Message)
	}
	return out.Pod
}

func containersOf(pod map[string]any, list string) []any {
	items, _ := pod["spec"].(map[string]any)[list].([]any)
	return items
}

// damages returns how the policy answers to each damage of a sidecar.
func damages(t testing.TB, e *evaluator, pod map[string]any, s sidecar) map[string]string {
	t.Helper()
	answers := map[string]string{}
	try := func(name string, change func(spec map[string]any, items []any, i int), update bool) {
		other := fragmenttest.Decode(t, string(podschema.Encode(pod)))
		items := containersOf(other, s.list)
		i := slices.IndexFunc(items, func(c any) bool { return c.(map[string]any)["name"] == s.name })
		if i < 0 {
			return
		}
		change(other["spec"].(map[string]any), items, i)
		r := request{pod: other}
		if update {
			r.old = pod
		}
		answers[name], _ = e.judge(t, r)
	}
	set := func(field, value string) func(map[string]any, []any, int) {
		return func(_ map[string]any, items []any, i int) { items[i].(map[string]any)[field] = value }
	}
	remove := func(spec map[string]any, items []any, i int) { spec[s.list] = slices.Delete(items, i, i+1) }
	try("absence", remove, false)
	try("another name", set("name", s.name+"-x"), false)
	try("another image", set("image", "evil.example.com/x:1"), false)
	try("no image", set("image", ""), false)
	try("image of a running pod", set("image", "evil.example.com/x:1"), true)
	try("the other list", func(spec map[string]any, items []any, i int) {
		other := map[string]string{"initContainers": "containers", "containers": "initContainers"}[s.list]
		moved := items[i]
		list, _ := spec[other].([]any)
		remove(spec, items, i)
		spec[other] = append(list, moved)
	}, false)
	return answers
}

const mesh = `
required: true
match:
  namespaceSelector: {matchLabels: {team: payments}, matchExpressions: [{key: tier, operator: In, values: [a, b]}]}
  podSelector: {matchLabels: {app: web}, matchExpressions: [{key: plain, operator: DoesNotExist}, {key: kind, operator: NotIn, values: [job]}, {key: app, operator: Exists}]}
verify: {images: ["mirror.example.com/**", "docker.io/*/proxy:1.*"]}
parameters:
- {name: image, type: image, default: "docker.io/istio/proxyv2:1.29.5"}
- {name: init, type: boolean, default: true}
inject:
  spec:
    initContainers:
    - {$if: params.init, name: mesh-init, image: "${params.image}"}
    - {name: mesh, image: "${ params.image }", restartPolicy: Always}
    containers:
    - {name: agent, image: "docker.io/a/agent:2"}`

func TestThePolicyIsAboutThePodsThatTheTemplateSelects(t *testing.T) {
	e := newEvaluator(t, floorOf(t, compiled(t, "mesh", mesh, nil)))
	for namespace, want := range map[string]bool{
		`{"team": "payments", "tier": "a"}`:                                               true,
		`{"team": "payments", "tier": "a", "pillion.dev/injection": "enforced"}`:          true,
		`{"team": "payments", "tier": "a", "pillion.dev/injection": "disabled"}`:          false,
		`{"team": "payments", "tier": "a", "kubernetes.io/metadata.name": "kube-system"}`: false,
		`{"team": "payments", "tier": "c"}`:                                               false,
		`{"tier": "a"}`:                                                                   false,
	} {
		var labels map[string]string
		errtest.ExpectNone(t, json.Unmarshal([]byte(namespace), &labels))
		if e.about(t, labels) != want {
			t.Errorf("about a namespace with the labels %s: %t", namespace, !want)
		}
	}
	for labels, want := range map[string]bool{
		`{"app": "web"}`:                true,
		`{"app": "web", "kind": "x"}`:   true,
		`{"app": "web", "kind": "job"}`: false,
		`{"app": "web", "plain": ""}`:   false,
		`{"app": "other"}`:              false,
		`{}`:                            false,
		`null`:                          false,
	} {
		pod := fragmenttest.Decode(t, `{"metadata": {"labels": `+labels+`}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}`)
		refusal, _ := e.judge(t, request{pod: pod})
		if (refusal != "") != want {
			t.Errorf("a pod with the labels %s: %q", labels, refusal)
		}
	}
}

// Nobody leaves the selection by changing a label of a running pod.
func TestALabelThatChangesLaterMakesNoDifference(t *testing.T) {
	e := newEvaluator(t, floorOf(t, compiled(t, "mesh", mesh, nil)))
	pod := func(labels, image string) map[string]any {
		return fragmenttest.Decode(t, fmt.Sprintf(`{"metadata": {"labels": {%s}}, "spec": {"initContainers": [{"name": "mesh", "image": %q}, {"name": "mesh-init", "image": "docker.io/istio/proxyv2:1.29.5"}],
			"containers": [{"name": "web", "image": "nginx"}, {"name": "agent", "image": "docker.io/a/agent:2"}]}}`, labels, image))
	}
	const good, evil = "docker.io/istio/proxyv2:1.29.5", "evil.example.com/x"
	for name, u := range map[string]struct {
		old, pod map[string]any
		refused  bool
	}{
		"the label goes":                      {pod(`"app": "web"`, good), pod(`"plain": ""`, good), false},
		"with it the image":                   {pod(`"app": "web"`, good), pod(`"plain": ""`, evil), true},
		"after it the image":                  {pod(`"plain": ""`, good), pod(`"plain": ""`, evil), true},
		"an image that is allowed":            {pod(`"plain": ""`, good), pod(`"plain": ""`, "mirror.example.com/a/b:1"), false},
		"what was there before the policy":    {pod(`"app": "web"`, evil), pod(`"app": "web", "more": ""`, evil), false},
		"away from what was there before":     {pod(`"app": "web"`, evil), pod(`"app": "web"`, good), false},
		"to another one than what was there":  {pod(`"app": "web"`, evil), pod(`"app": "web"`, evil+":2"), true},
		"a path that only ends like a mirror": {pod(`"app": "web"`, good), pod(`"app": "web"`, "evil.example.com/mirror.example.com/a"), true},
		"a name that only begins like it":     {pod(`"app": "web"`, good), pod(`"app": "web"`, "mirror.example.com.evil.example.com/a"), true},
		"a dot that is another letter":        {pod(`"app": "web"`, good), pod(`"app": "web"`, "mirrorxexample.com/a"), true},
		"one star, and a slash":               {pod(`"app": "web"`, good), pod(`"app": "web"`, "docker.io/x/y/proxy:1.2"), true},
		"one star":                            {pod(`"app": "web"`, good), pod(`"app": "web"`, "docker.io/x/proxy:1.2"), false},
	} {
		refusal, _ := e.judge(t, request{pod: u.pod, old: u.old})
		if (refusal != "") != u.refused {
			t.Errorf("%s: %q", name, refusal)
		}
	}
	// A container under $if is not demanded, and keeps its image.
	changed := fragmenttest.Decode(t, string(podschema.Encode(pod(`"app": "web"`, good))))
	containersOf(changed, "initContainers")[1].(map[string]any)["image"] = evil
	if refusal, _ := e.judge(t, request{pod: changed, old: pod(`"app": "web"`, good)}); !strings.Contains(refusal, "mesh-init") {
		t.Errorf("another image for a container under $if: %q", refusal)
	}
	changed["spec"].(map[string]any)["initContainers"] = containersOf(changed, "initContainers")[:1]
	if refusal, _ := e.judge(t, request{pod: changed}); refusal != "" {
		t.Errorf("a new pod without the container under $if: %q", refusal)
	}
}

func TestTheMirrorsOfStaticPodsPassWhenANodeSendsThem(t *testing.T) {
	e := newEvaluator(t, floorOf(t, compiled(t, "mesh", strings.Replace(mesh, "match:", "suspend: false\nmatch:", 1), nil)))
	mirror := fragmenttest.Decode(t, `{"metadata": {"labels": {"app": "web"}, "annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}`)
	if refusal, _ := e.judge(t, request{pod: mirror, groups: []string{"system:nodes", "system:authenticated"}}); refusal != "" {
		t.Errorf("of a node: %s", refusal)
	}
	if refusal, _ := e.judge(t, request{pod: mirror, groups: []string{"system:authenticated"}}); refusal == "" {
		t.Error("a tenant's pod passes for a mirror")
	}
}

// What of a template no policy can hold pods to is said, with what to do.
func TestATemplateThatNoPolicyFitsIsRefusedWithTheReason(t *testing.T) {
	container := "\ninject: {spec: {containers: [{name: a, image: %s}]}}"
	for name, c := range map[string]struct {
		spec, want string
		nothing    bool
	}{
		"not required":                {"match: {}" + fmt.Sprintf(container, "a:1"), "is not required", false},
		"suspended":                   {"required: true\nsuspend: true\nmatch: {}" + fmt.Sprintf(container, "a:1"), "is suspended", false},
		"conditions":                  {"required: true\nmatch: {}\nmatchConditions: [{name: a, expression: 'true'}]" + fmt.Sprintf(container, "a:1"), "match.podSelector", true},
		"$if of every container":      {"required: true\nmatch: {}\ninject: {spec: {containers: [{$if: 'has(pod.metadata)', name: a, image: 'a:1'}]}}", "$if", true},
		"$if of the spec":             {"required: true\nmatch: {}\ninject: {spec: {$if: 'has(pod.metadata)', containers: [{name: a, image: 'a:1'}]}}", "$if", true},
		"no container":                {"required: true\nmatch: {}\ninject: {spec: {containers: [{$each: App, env: [{name: A}]}, {name: web, env: [{name: B}]}]}}", "no container of its own", true},
		"an expression":               {"required: true\nmatch: {}" + fmt.Sprintf(container, `"${values.registry}/a:1"`), `for example ["registry.example.com/team/*"]`, false},
		"a parameter of teams":        {"required: true\nmatch: {}\nparameters: [{name: image, type: image, default: 'a:1', setBy: [Namespace]}]" + fmt.Sprintf(container, `"${params.image}"`), `for example ["a:1"]`, false},
		"an image that is not listed": {"required: true\nmatch: {}\nverify: {images: ['b/*']}" + fmt.Sprintf(container, `"${values.registry}/a:1"`), "r.example.com/a:1", false},
	} {
		_, err := Of(t.Context(), compiled(t, "audit", c.spec, map[string]any{"registry": "r.example.com"}), options)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "template audit: ") || errors.Is(err, ErrNothing) != c.nothing {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An API server that is given no container enters the only one of a pod: of init containers none.
func TestNobodyEntersTheSidecarsUnlessEachVersionAllowsIt(t *testing.T) {
	const init, container = "required: true\nmatch: {}\ninject: {spec: {initContainers: [{name: a, image: 'a:1'}]}}", "required: true\nmatch: {}\ninject: {spec: {containers: [{name: a, image: 'a:1'}, {$if: 'has(pod.metadata)', name: b, image: 'b:1'}]}}"
	const allowed = "\nverify: {allow: {exec: true}}"
	canary := "canary: {of: audit, percent: 10}\ninject: {spec: {containers: [{name: a, image: 'a:2'}, {name: c, image: 'c:1'}]}}"
	for _, c := range []struct{ stable, canary, refused string }{
		{stable: init, refused: "a"},
		{stable: container, refused: "a b ''"},
		{stable: init + allowed},
		{stable: container + allowed},
		{stable: container, canary: canary, refused: "a b c ''"},
		{stable: container + allowed, canary: canary, refused: "a c ''"},
		{stable: container, canary: canary + allowed, refused: "a b ''"},
		{stable: container + allowed, canary: canary + allowed},
	} {
		stable := compiled(t, "audit", c.stable, nil)
		var canaries []templates.Canary
		if c.canary != "" {
			next := compiled(t, "audit-next", c.canary, nil)
			canaries = templates.NewSet([]templates.Entry{{Name: "audit", Template: stable}, {Name: "audit-next", Template: next}}).CanariesOf("audit")
		}
		f, err := Of(t.Context(), stable, options, canaries...)
		errtest.ExpectNone(t, err)
		e := newEvaluator(t, f)
		for name, kind := range map[string]func(container string) runtime.Object{
			"exec": func(container string) runtime.Object {
				return &corev1.PodExecOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodExecOptions"}, Container: container, Command: []string{"sh"}}
			},
			"attach": func(container string) runtime.Object {
				return &corev1.PodAttachOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodAttachOptions"}, Container: container}
			},
		} {
			var refused []string
			for _, container := range []string{"a", "b", "c", "app", ""} {
				if refusal, _ := e.judge(t, request{options: kind(container)}); refusal != "" {
					refused = append(refused, cmp.Or(container, "''"))
				}
			}
			if got := strings.Join(refused, " "); got != c.refused {
				t.Errorf("%s\n%s\n%s is refused into %s; want %s", c.stable, c.canary, name, got, c.refused)
			}
		}
	}
}

// Whatever template is made of the parts that a policy takes: what Pillion injects passes, and
// what lacks a part does not.
func TestWhatPillionInjectsPassesAnyPolicyAndAnyDamageDoesNot(t *testing.T) {
	pods := samples.Bundled()
	rapid.Check(t, func(rt *rapid.T) {
		var lists = map[string][]string{}
		var patterns []string
		for i := range rapid.IntRange(1, 4).Draw(rt, "sidecars") {
			list := rapid.SampledFrom([]string{"initContainers", "containers"}).Draw(rt, "list")
			image := rapid.SampledFrom([]string{"a/b:1", "docker.io/a/b@sha256:" + strings.Repeat("0", 64), "${params.image}", "${ params.image }", "${values.registry}/x:1"}).Draw(rt, "image")
			condition := ""
			if i > 0 && rapid.Bool().Draw(rt, "conditional") {
				condition = "$if: 'pod.spec.containers.size() > 1', "
			}
			if strings.Contains(image, "values") {
				patterns = []string{"r.example.com/*"}
			}
			lists[list] = append(lists[list], fmt.Sprintf("{%sname: side-%d, image: %q}", condition, i, image))
		}
		if len(patterns) == 0 && rapid.Bool().Draw(rt, "verify") {
			patterns = []string{"other.example.com/**", "r.*/a+b"}
		}
		spec := "required: true\nmatch: {}\nparameters: [{name: image, type: image, default: 'reg.example.com:5000/p:1'}]\n"
		if !strings.Contains(fmt.Sprint(lists), "params.image") {
			spec = "required: true\nmatch: {}\n"
		}
		if len(patterns) > 0 {
			spec += "verify: {images: ['" + strings.Join(patterns, "', '") + "']}\n"
		}
		spec += "inject:\n  spec:\n"
		for _, list := range slices.Sorted(maps.Keys(lists)) {
			spec += "    " + list + ": [" + strings.Join(lists[list], ", ") + "]\n"
		}
		tmpl := compiled(t, "audit", spec, map[string]any{"registry": "r.example.com"})
		e := newEvaluator(t, floorOf(t, tmpl))
		sidecars, err := sidecarsOf(tmpl)
		errtest.ExpectNone(rt, err)
		pod := inject(t, tmpl, fragmenttest.Decode(t, string(podschema.Encode(rapid.SampledFrom(pods).Draw(rt, "pod").Pod))))
		if pod == nil {
			return
		}
		if refusal, _ := e.judge(t, request{pod: pod}); refusal != "" {
			rt.Fatalf("what Pillion injects is refused: %s\n%s", refusal, spec)
		}
		if refusal, _ := e.judge(t, request{pod: pod, old: pod}); refusal != "" {
			rt.Fatalf("an update that changes nothing is refused: %s\n%s", refusal, spec)
		}
		for _, s := range sidecars {
			for damage, refused := range damages(t, e, pod, s) {
				if (s.always || damage == "image of a running pod") && !strings.Contains(refused, s.name) {
					rt.Fatalf("%s of %s: %q\n%s", damage, s.name, refused, spec)
				}
			}
		}
	})
}

// A pod may have the stable version or a canary's, and the policy knows neither share nor labels.
func TestThePolicyAcceptsWhatEachCanaryRenders(t *testing.T) {
	const spec = "required: true\nmatch: {}\ninject: {spec: {containers: [{name: a, image: 'a:1'}, {name: b, image: 'b:1'}]}}"
	stable := compiled(t, "audit", spec, nil)
	canary := compiled(t, "audit-next", "canary: {of: audit, percent: 10}\nverify: {images: ['mirror/*']}\ninject: {spec: {containers: [{name: a, image: 'a:2'}, {name: c, image: 'c:1'}]}}", nil)
	set := templates.NewSet([]templates.Entry{{Name: "audit", Template: stable}, {Name: "audit-next", Template: canary}})
	f, err := Of(t.Context(), stable, options, set.CanariesOf("audit")...)
	errtest.ExpectNone(t, err)
	e := newEvaluator(t, f)
	for containers, passes := range map[string]bool{
		`{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}`:      true,
		`{"name": "a", "image": "a:2"}, {"name": "c", "image": "c:1"}`:      true,
		`{"name": "a", "image": "mirror/a"}, {"name": "c", "image": "c:1"}`: true,
		`{"name": "a", "image": "a:3"}, {"name": "c", "image": "c:1"}`:      false,
		`{"name": "c", "image": "c:1"}`:                                     false,
	} {
		if refusal, _ := e.judge(t, request{pod: fragmenttest.Decode(t, `{"spec": {"containers": [`+containers+`]}}`)}); (refusal == "") != passes {
			t.Errorf("%s: %q", containers, refusal)
		}
	}
	nothing := compiled(t, "audit-next", "canary: {of: audit, percent: 10}\ninject: {metadata: {labels: {a: b}}}", nil)
	set = templates.NewSet([]templates.Entry{{Name: "audit", Template: stable}, {Name: "audit-next", Template: nothing}})
	if _, err := Of(t.Context(), stable, options, set.CanariesOf("audit")...); !errors.Is(err, ErrNothing) {
		t.Errorf("a canary has none of the containers: %v", err)
	}
}
