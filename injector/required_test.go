package injector

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

const audit = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: audit}
spec:
  match: {namespaceSelector: {matchLabels: {team: shop}}, podSelector: {matchExpressions: [{key: exempt, operator: DoesNotExist}]}}
  required: true
  verify: {images: ["mirror.example.com/audit:*", "registry.example.com/audit:1*"]}
  matchConditions:
  - {name: not-host-network, expression: "!pod.spec.?hostNetwork.orValue(false)"}
  inject:
    metadata: {labels: {audited: "true"}}
    spec:
      initContainers:
      - name: audit
        $position: First
        restartPolicy: Always
        image: registry.example.com/audit:1
        args: [--watch]
        env: [{name: MODE, value: strict}]
        resources: {limits: {memory: 64Mi}}
        volumeMounts: [{name: audit, mountPath: /audit}]
      containers:
      - $each: App
        volumeMounts: [{name: audit, mountPath: /audit}]
      volumes:
      - {name: audit, emptyDir: {}}
`

// helper is not required, and adds a container beside the app's.
const helper = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: helper}
spec:
  inject: {spec: {containers: [{name: helper, image: "helper:1"}]}}
`

var shop = templates.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"pillion.dev/inject": "helper"}}

// requiredSet has the two templates; edit changes the text of the required one.
func requiredSet(t testing.TB, edit ...string) *templates.Set {
	t.Helper()
	return templatestest.Set(t, strings.NewReplacer(edit...).Replace(audit), helper)
}

const plainPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"app:1"}]}}`

func podOf(t testing.TB, text string) map[string]any {
	t.Helper()
	pod, err := DecodePod([]byte(text))
	errtest.ExpectNone(t, err)
	return pod
}

// patched applies a JSON patch, as somebody else's change.
func patched(t testing.TB, pod map[string]any, operations string) map[string]any {
	t.Helper()
	before, err := json.Marshal(pod)
	errtest.ExpectNone(t, err)
	p, err := jsonpatch.DecodePatch([]byte(operations))
	errtest.ExpectNone(t, err)
	after, err := p.Apply(before)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, operations, before)
	}
	return podOf(t, string(after))
}

func injectRequired(t testing.TB, set *templates.Set, pod map[string]any) map[string]any {
	t.Helper()
	out := injectIn(t, shop, set, pod)
	if !out.Allowed {
		t.Fatal(out.Message)
	}
	return out.Pod
}

func verifyRequired(t testing.TB, set *templates.Set, r Request, old map[string]any) string {
	t.Helper()
	r.Namespace, r.Templates, r.Old = shop, set, old
	out, err := NewPipeline(Config{}).Verify(t.Context(), r)
	errtest.ExpectNone(t, err)
	if refused := out.Code == reason.RequiredMissing && strings.HasSuffix(out.Message, "(RequiredMissing)"); out.Allowed == refused || out.Allowed && out.Message != "" {
		t.Fatalf("an outcome that contradicts itself: %+v", out)
	}
	return out.Message
}

// wantSays fails the test unless the message has the text, or is empty where no text is wanted.
func wantSays(t testing.TB, why, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s: %q; want %q", why, got, want)
	}
}

// The API server's ServiceAccount plugin adds this volume to each pod, and the mount to
// each container.
const (
	tokenMount  = `{"name":"kube-api-access-x7k2p","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","readOnly":true}`
	tokenVolume = `{"name":"kube-api-access-x7k2p","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},` +
		`{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},` +
		`{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}]}}`
)

func TestTheFinalPodHasEverythingThatARequiredTemplateRenders(t *testing.T) {
	set := requiredSet(t)
	injected := injectRequired(t, set, podOf(t, plainPod))
	for _, c := range []struct{ why, change, says string }{
		{"nothing else happened", `[]`, ""},
		{"the token is mounted into the sidecar", `[{"op":"add","path":"/spec/initContainers/0/volumeMounts/-","value":` + tokenMount + `},{"op":"add","path":"/spec/volumes/-","value":` + tokenVolume + `}]`, ""},
		{"the image is taken from an accepted mirror", `[{"op":"replace","path":"/spec/initContainers/0/image","value":"mirror.example.com/audit:1@sha256:` + strings.Repeat("0", 64) + `"}]`, ""},
		{"another sidecar and other defaults are there", `[{"op":"add","path":"/spec/containers/-","value":{"name":"mesh","image":"mesh:1","volumeMounts":[{"name":"audit","mountPath":"/audit"}]}},{"op":"add","path":"/spec/initContainers/0/terminationMessagePath","value":"/dev/termination-log"}]`, ""},
		{"the image is another", `[{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}]`, `spec.initContainers[name=audit].image is "evil:1"; must be "registry.example.com/audit:1", or an image that the template's spec.verify.images allows`},
		{"the container is gone", `[{"op":"remove","path":"/spec/initContainers/0"}]`, "spec.initContainers[name=audit] is missing"},
		{"the container runs something else", `[{"op":"add","path":"/spec/initContainers/0/command","value":["sleep"]}]`, `spec.initContainers[name=audit].command is ["sleep"], but the template does not set it`},
		{"the arguments are others", `[{"op":"replace","path":"/spec/initContainers/0/args","value":["--off"]}]`, "args"},
		{"a variable is another", `[{"op":"replace","path":"/spec/initContainers/0/env/0/value","value":"off"}]`, `env[name=MODE] is {"name":"MODE","value":"off"}; must be {"name":"MODE","value":"strict"}`},
		{"a variable is gone", `[{"op":"remove","path":"/spec/initContainers/0/env"}]`, "spec.initContainers[name=audit].env[name=MODE] is missing"},
		{"an app container has no mount", `[{"op":"remove","path":"/spec/containers/0/volumeMounts"}]`, "spec.containers[name=app].volumeMounts[mountPath=/audit] is missing"},
		{"a container came later and has no mount", `[{"op":"add","path":"/spec/containers/-","value":{"name":"late","image":"late:1"}}]`, "spec.containers[name=late].volumeMounts[mountPath=/audit] is missing"},
		{"the volume is another", `[{"op":"replace","path":"/spec/volumes/0","value":{"name":"audit","hostPath":{"path":"/"}}}]`, "volumes"},
		{"the memory is less", `[{"op":"replace","path":"/spec/initContainers/0/resources/limits/memory","value":"1Mi"}]`, "memory"},
		{"the label is gone", `[{"op":"remove","path":"/metadata/labels/audited"}]`, "metadata.labels.audited is missing"},
		{"a label is another", `[{"op":"replace","path":"/metadata/labels/audited","value":"no"}]`, `metadata.labels.audited is "no"; must be "true"`},
		{"the pod is exempt", `[{"op":"add","path":"/metadata/labels/exempt","value":"x"},{"op":"remove","path":"/spec/initContainers"}]`, ""},
		{"a matchCondition is false", `[{"op":"add","path":"/spec/hostNetwork","value":true},{"op":"remove","path":"/spec/initContainers"},{"op":"remove","path":"/spec/volumes"}]`, ""},
		{"the pod opts out", `[{"op":"add","path":"/metadata/annotations/pillion.dev~1inject","value":"false"},{"op":"remove","path":"/spec/initContainers"}]`, "spec.initContainers[name=audit] is missing"},
	} {
		got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: patched(t, injected, c.change)}, nil)
		wantSays(t, c.why, got, c.says)
	}
}

// A pod without a record may declare the sidecar as the template renders it. Pods that the
// API server has completed have the token's mount in it.
func TestADeclaredSidecarMountsNothingButTheTokenWhereTheTokenGoes(t *testing.T) {
	set := requiredSet(t)
	injected := injectRequired(t, set, podOf(t, plainPod))
	for says, change := range map[string]string{
		"": `{"op":"add","path":"/spec/initContainers/0/volumeMounts/-","value":` + tokenMount + `},{"op":"add","path":"/spec/volumes/-","value":` + tokenVolume + `}`,
		"spec.initContainers[name=audit].volumeMounts[mountPath=/var/run/secrets/kubernetes.io/serviceaccount] is present, but the template does not render it": `
			{"op":"add","path":"/spec/initContainers/0/volumeMounts/-","value":{"name":"audit","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}`,
	} {
		pod := patched(t, injected, `[{"op":"remove","path":"/metadata/annotations"},{"op":"remove","path":"/spec/containers/1"},`+change+`]`)
		out := injectIn(t, shop, set, pod)
		for webhook, got := range map[string]string{"injected": out.Message, "verified": verifyRequired(t, set, Request{Operation: "CREATE", Pod: pod}, nil)} {
			wantSays(t, webhook, got, says)
		}
	}
}

// The API server adds its two tolerations to every pod, whatever a template says.
func TestARequiredTemplateMayReplaceTheTolerationsOfAPod(t *testing.T) {
	const own = `{"key":"own","operator":"Exists"}`
	const added = `{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}`
	for spec, want := range map[string]string{
		"      tolerations: [{$patch: replace}, {key: audited, operator: Exists}]\n": `[{"key":"audited","operator":"Exists"},` + added + `]`,
		"      $unset: [tolerations]\n":                                              `[` + added + `]`,
	} {
		set := requiredSet(t, "    spec:\n      initContainers:\n", "    spec:\n"+spec+"      initContainers:\n")
		pod := injectRequired(t, set, patched(t, podOf(t, plainPod), `[{"op":"add","path":"/spec/tolerations","value":[`+own+`,`+added+`]}]`))
		if got := pod["spec"].(map[string]any)["tolerations"]; encode(t, got) != encode(t, podOf(t, `{"list":`+want+`}`)["list"]) {
			t.Errorf("%s: %s; want %s", spec, encode(t, got), want)
		}
		if got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: pod}, nil); got != "" {
			t.Errorf("%s: %s", spec, got)
		}
		pod = patched(t, pod, `[{"op":"add","path":"/spec/tolerations/-","value":`+own+`}]`)
		if got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: pod}, nil); !strings.Contains(got, "spec.tolerations") {
			t.Errorf("%s: a toleration that came back: %q", spec, got)
		}
	}
}

func TestAFieldThatARequiredTemplateTakesAwayMayNotComeBack(t *testing.T) {
	set := requiredSet(t, "      - $each: App\n", `      - $each: App
        $unset: [stdin]
        env: [{$patch: delete, name: DEBUG}]
`, "$position: First", "$position: {before: migrate}")
	injected := injectRequired(t, set, podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{
		"initContainers":[{"name":"migrate","image":"m:1"}],
		"containers":[{"name":"app","image":"app:1","stdin":true,"env":[{"name":"DEBUG","value":"1"},{"name":"A","value":"b"}]}]}}`))
	for _, c := range []struct{ change, says string }{
		{`[]`, ""},
		{`[{"op":"add","path":"/spec/containers/0/stdin","value":true}]`, "stdin"},
		{`[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"DEBUG","value":"1"}}]`, "env"},
	} {
		got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: patched(t, injected, c.change)}, nil)
		wantSays(t, c.change, got, c.says)
	}
	out := injectIn(t, shop, set, injected)
	if len(out.Operations) != 0 {
		t.Errorf("a second call: %d operations", len(out.Operations))
	}
}

// A node's mirror pod shows a static pod that runs there already. Nothing can be injected,
// and nothing is missing. In a pod of anybody else the annotation keeps no required
// template out.
func TestOnlyAMirrorPodOfANodeStaysAsItIs(t *testing.T) {
	set := requiredSet(t)
	mirror := patched(t, podOf(t, plainPod), `[{"op":"add","path":"/metadata/annotations","value":{"kubernetes.io/config.mirror":"x"}}]`)
	for fromNode, verified := range map[bool]string{true: "", false: "spec.initContainers[name=audit] is missing"} {
		r := Request{Operation: "CREATE", FromNode: fromNode, Pod: mirror, Namespace: shop, Templates: set}
		out, err := NewPipeline(Config{}).Inject(t.Context(), r)
		if err != nil || !out.Allowed || (len(itemsOf(out.Pod, "initContainers")) == 1) == fromNode || len(itemsOf(out.Pod, "containers")) != 1 {
			t.Errorf("from a node %v: %v %s %v", fromNode, err, out.Message, out.Pod)
		}
		if got := verifyRequired(t, set, r, nil); verified == "" && got != "" || !strings.Contains(got, verified) {
			t.Errorf("from a node %v: verified %q; want %q", fromNode, got, verified)
		}
		r.Pod = out.Pod
		if got := verifyRequired(t, set, r, nil); got != "" {
			t.Errorf("from a node %v: the final pod: %s", fromNode, got)
		}
	}
}

// What an annotation says cannot be understood is for the mutating webhook to say. The final
// pod is compared whatever it says.
func TestNoAnnotationSwitchesTheVerificationOff(t *testing.T) {
	set := requiredSet(t)
	injected := injectRequired(t, set, podOf(t, plainPod))
	for why, annotations := range map[string]string{
		"a word that is none":      `{"pillion.dev/inject":"!!"}`,
		"nothing":                  `{"pillion.dev/inject":""}`,
		"a mixed list":             `{"pillion.dev/inject":"a,+b"}`,
		"added and taken off":      `{"pillion.dev/inject":"+audit,-audit"}`,
		"a template that is not":   `{"pillion.dev/inject":"nobody"}`,
		"a relative one":           `{"pillion.dev/inject":"-audit"}`,
		"a parameter that is not":  `{"helper.pillion.dev/nobody":"x"}`,
		"a record of nonsense":     `{"pillion.dev/status":"{"}`,
		"a mirror pod of nobody's": `{"kubernetes.io/config.mirror":"x"}`,
	} {
		for change, says := range map[string]string{
			"": "",
			`,{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}`: `evil:1`,
			`,{"op":"remove","path":"/spec/initContainers"}`:                           "spec.initContainers[name=audit] is missing",
		} {
			pod := patched(t, injected, `[{"op":"replace","path":"/metadata/annotations","value":`+annotations+`},{"op":"remove","path":"/spec/containers/1"}`+change+`]`)
			got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: pod}, nil)
			wantSays(t, why+", "+change, got, says)
		}
	}
	ns := shop
	ns.Annotations = map[string]string{"pillion.dev/inject": "!!"}
	pod := patched(t, injected, `[{"op":"remove","path":"/metadata/annotations"},{"op":"remove","path":"/spec/containers/1"},{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}]`)
	out, err := NewPipeline(Config{}).Verify(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: set})
	if err != nil || !strings.Contains(out.Message, "evil:1") {
		t.Errorf("an annotation of the namespace: %v %q", err, out.Message)
	}
}

func TestAnUpdateIsJudgedByTheContainersThatItChanges(t *testing.T) {
	set := requiredSet(t)
	old := injectRequired(t, set, podOf(t, plainPod))
	// An older pod, made before the template was required.
	bare := podOf(t, plainPod)
	for _, c := range []struct {
		why, subresource string
		old              map[string]any
		change, says     string
	}{
		{"metadata", "", old, `[{"op":"add","path":"/metadata/labels/exempt","value":"x"},{"op":"add","path":"/metadata/annotations/a","value":"b"}]`, ""},
		{"the app's image", "", old, `[{"op":"replace","path":"/spec/containers/0/image","value":"app:2"}]`, ""},
		{"the sidecar's image, to an accepted one", "", old, `[{"op":"replace","path":"/spec/initContainers/0/image","value":"mirror.example.com/audit:2"}]`, ""},
		{"the sidecar's image", "", old, `[{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}]`, `the container audit would have the image "evil:1"`},
		{"the sidecar's image of a pod that has been relabelled", "", patched(t, old, `[{"op":"add","path":"/metadata/labels/exempt","value":"x"},{"op":"remove","path":"/metadata/annotations"}]`), `[{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}]`, `"evil:1"`},
		{"the image of a pod that never had the sidecar", "", bare, `[{"op":"replace","path":"/spec/containers/0/image","value":"app:2"}]`, ""},
		{"the app's resources", "resize", old, `[{"op":"add","path":"/spec/containers/0/resources","value":{"limits":{"cpu":"1"}}}]`, ""},
		{"the sidecar's memory", "resize", old, `[{"op":"replace","path":"/spec/initContainers/0/resources/limits/memory","value":"1Mi"}]`, `the container audit would have the resources {"limits":{"memory":"1Mi"}}; must be {"limits":{"memory":"64Mi"}}`},
		{"the sidecar's memory, written otherwise", "resize", old, `[{"op":"replace","path":"/spec/initContainers/0/resources/limits/memory","value":"65536Ki"}]`, ""},
		{"the sidecar's CPU, but the template does not set it", "resize", old, `[{"op":"add","path":"/spec/initContainers/0/resources/limits/cpu","value":"1"}]`, `would have the resources {"limits":{"cpu":"1","memory":"64Mi"}}`},
		{"an ephemeral container in the sidecar", "ephemeralcontainers", old, `[{"op":"add","path":"/spec/ephemeralContainers","value":[{"name":"debug","image":"sh:1","targetContainerName":"audit"}]}]`, "the ephemeral container debug targets the container audit; leave out targetContainerName, or target another container"},
		{"an ephemeral container in the app", "ephemeralcontainers", old, `[{"op":"add","path":"/spec/ephemeralContainers","value":[{"name":"debug","image":"sh:1","targetContainerName":"app"}]}]`, ""},
		{"the sidecar's limits", "resize", old, `[{"op":"remove","path":"/spec/initContainers/0/resources"}]`, `must be {"limits":{"memory":"64Mi"}}`},
	} {
		got := verifyRequired(t, set, Request{Operation: "UPDATE", Subresource: c.subresource, Pod: patched(t, c.old, c.change)}, c.old)
		wantSays(t, c.why, got, c.says)
	}
}

func TestABrokenTemplatesOnErrorDecidesAboutThePodsThatItMatches(t *testing.T) {
	for _, c := range []struct {
		why, spec string
		refused   bool
		says      string
	}{
		{"it matches", "match: {namespaceSelector: {matchLabels: {team: shop}}}", true, "no good version of it is known"},
		{"it is required", "required: true\n  match: {namespaceSelector: {matchLabels: {team: shop}}}", true, "no good version of it is known"},
		{"it matches, and is skipped", "onError: Skip\n  match: {namespaceSelector: {matchLabels: {team: shop}}}", false, "no good version of it is known"},
		{"it matches other namespaces", "match: {namespaceSelector: {matchLabels: {team: other}}}", false, ""},
		{"it is suspended", "suspend: true\n  match: {namespaceSelector: {matchLabels: {team: shop}}}", false, ""},
		{"nobody asks for it", "order: 1", false, ""},
	} {
		_, _, err := templates.Compile([]byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: bad}\nspec:\n  "+c.spec+"\n  inject: {spec: {nodeNam: x}}\n"), templates.Options{})
		set := templates.NewSet([]templates.Entry{{Name: "bad", Err: errors.Join(err, errors.New("and more"))}})
		out := injectIn(t, templates.Namespace{Name: "shop", Labels: shop.Labels}, set, podOf(t, plainPod))
		if text := out.Message + strings.Join(out.Warnings, " "); out.Allowed == c.refused || !strings.Contains(text, c.says) || c.says == "" && text != "" {
			t.Errorf("%s: allowed %v, %q", c.why, out.Allowed, text)
		}
	}
}
