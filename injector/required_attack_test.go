package injector

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// required_attack_test.go has attempts of a tenant to run a pod without what a required template wants.

// alone is the namespace shop, which asks for nothing.
var alone = templates.Namespace{Name: "shop", Labels: shop.Labels}

// manifestNamed returns a template of that name.
func manifestNamed(name, spec string) string {
	return templatestest.Manifest(name, "{"+spec+"}")
}

// mandatory returns a template that is required of all pods.
func mandatory(name, spec string) string {
	return manifestNamed(name, "required: true, match: {podSelector: {}}, "+spec)
}

// injectedAndVerified injects a pod and verifies the result. It returns the pod, and the refusal of either step.
func injectedAndVerified(t *testing.T, set *templates.Set, pod map[string]any) (map[string]any, string) {
	t.Helper()
	out := injectIn(t, alone, set, pod)
	if !out.Allowed {
		return nil, out.Message
	}
	return out.Pod, verifyRequired(t, set, Request{Operation: "CREATE", Pod: out.Pod}, nil)
}

// A variable sees those in front of it: $(DIR) of one that comes later stays as it is written.
func TestTheVariablesOfARequiredSidecarStandInItsOrder(t *testing.T) {
	set := templatestest.Set(t, mandatory("r", `verify: {allow: {env: [OTHER]}}, inject: {spec: {initContainers: [{name: r, image: r, env: [{name: DIR, value: x}, {name: FILE, value: "$(DIR)/y"}]}]}}`))
	for env, says := range map[string]string{
		`{"name":"DIR","value":"x"},{"name":"FILE","value":"$(DIR)/y"}`:                                     "",
		`{"name":"DIR","value":"x"},{"name":"OTHER","value":"1"},{"name":"FILE","value":"$(DIR)/y"}`:        "",
		`{"name":"FILE","value":"$(DIR)/y"},{"name":"DIR","value":"x"}`:                                     "spec.initContainers[name=r].env[name=DIR] must come before FILE",
		`{"name":"DIR","value":"x"},{"name":"FILE","value":"$(DIR)/y"},{"name":"DIR","value":"x"}`:          "",
		`{"name":"DIR","value":"x"},{"name":"DIR","value":"evil"},{"name":"FILE","value":"$(DIR)/y"}`:       `env[name=DIR] is {"name":"DIR","value":"evil"}`,
		`{"name":"DIR","value":"evil"},{"name":"FILE","value":"$(DIR)/y"},{"name":"DIR","value":"x"}`:       `env[name=DIR] is {"name":"DIR","value":"evil"}`,
		`{"name":"DIR","value":"x"},{"name":"FILE","value":"$(DIR)/y"},{"name":"LD_PRELOAD"}`:               "env[name=LD_PRELOAD] is present, but the template does not render it",
		`{"name":"DIR","value":"x"},{"name":"FILE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}`: "env[name=FILE] is",
	} {
		pod := podOf(t, `{"metadata":{"name":"web"},"spec":{"initContainers":[{"name":"r","image":"r","env":[`+env+`]}],"containers":[{"name":"app","image":"app:1"}]}}`)
		_, got := injectedAndVerified(t, set, pod)
		wantSays(t, env, got, says)
		wantSays(t, env, verifyRequired(t, set, Request{Operation: "CREATE", Pod: pod}, nil), says)
	}
}

// A container is another template's sidecar only if a template of the cluster makes all of it. A
// container that the author declares, or that anybody extended, is the app's.
func TestNoContainerLeavesTheAppByTheNameOfASidecar(t *testing.T) {
	hardening := mandatory("hardening", `inject: {spec: {containers: [{$each: App, env: [{name: HARD, value: "1"}]}, {$each: Init, securityContext: {privileged: false}, env: [{name: HARD, value: "1"}]}]}}`)
	proxy := manifestNamed("proxy", `order: -1, overridable: true, inject: {spec: {initContainers: [{name: proxy, image: "proxy:1", restartPolicy: Always}]}}`)
	everywhere := manifestNamed("everywhere", `inject: {spec: {containers: [{$each: All, env: [{name: ALL, value: "1"}]}]}}`)
	own := func(inject string) templates.Entry {
		e := templatestest.Set(t, manifestNamed("own", "inject: {spec: {"+inject+"}}")).All()[0]
		e.Namespace = "shop"
		return e
	}
	honest := `{"name":"proxy","image":"proxy:1","restartPolicy":"Always","env":[{"name":"ALL","value":"1"}]}`
	record := forged(t, map[string]string{"proxy": "x"}, map[string]string{"spec.initContainers[name=proxy]": `{"sum":"0"}`})
	for _, c := range []struct {
		why, init, record string
		own               templates.Entry
		app               bool
	}{
		{why: "the template's own", init: "", app: false},
		{why: "declared, as the template makes it", init: honest, app: true},
		{why: "declared, with a hook", init: `{"name":"proxy","image":"proxy:1","restartPolicy":"Always","lifecycle":{"postStart":{"exec":{"command":["evil"]}}}}`, app: true},
		{why: "declared, privileged", init: `{"name":"proxy","image":"auto","restartPolicy":"Always","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}`, app: true},
		{why: "as the record says", init: honest, record: record, app: false},
		{why: "with a variable, and the record says that Pillion wrote it", init: strings.Replace(honest, `"env":[`, `"env":[{"name":"LD_PRELOAD","value":"/evil.so"},`, 1), record: record, app: true},
		{why: "with a probe, and the record says that Pillion wrote it", init: strings.Replace(honest, `"env":[`, `"livenessProbe":{"exec":{"command":["evil"]}},"env":[`, 1), record: record, app: true},
		{why: "extended by a template of the namespace", own: own(`initContainers: [{name: proxy, lifecycle: {postStart: {exec: {command: [evil]}}}}]`), app: true},
		{why: "extended by a template of the namespace with all others", own: own(`containers: [{$each: All, env: [{name: LD_PRELOAD, value: /evil.so}]}]`), app: true},
		{why: "of a template of the namespace", init: "", own: own(`initContainers: [{name: other, image: "proxy:1", restartPolicy: Always}]`), app: false},
	} {
		entries := templatestest.Set(t, hardening, proxy, everywhere).All()
		names := "proxy,everywhere"
		if c.own.Template != nil {
			entries, names = append(entries, c.own), names+",own"
		}
		set := templates.NewSet(entries)
		pod := podOf(t, `{"metadata":{"name":"web","annotations":{"pillion.dev/inject":"`+names+`"}},"spec":{"initContainers":[`+c.init+`],"containers":[{"name":"app","image":"app:1"}]}}`)
		if c.record != "" {
			pod["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey] = c.record
		}
		got, refusal := injectedAndVerified(t, set, pod)
		if refusal != "" {
			t.Errorf("%s: %s", c.why, refusal)
			continue
		}
		for _, container := range itemsOf(got, "initContainers") {
			hardened := strings.Contains(encode(t, container), "HARD")
			if want := c.app || nameOf(container) != "proxy"; hardened != want {
				t.Errorf("%s: the container %s is hardened: %v; want %v\n%s", c.why, nameOf(container), hardened, want, encode(t, container))
			}
		}
	}
}

func TestRequiredTemplatesThatMeetAgreeOnCreationAndOnVerification(t *testing.T) {
	for _, c := range []struct {
		why, a, b, pod string
		want, refusal  string // a text in the final pod
	}{
		{why: "one sets the label that the other selects", a: `inject: {metadata: {labels: {tier: db}}}`, b: `match: {podSelector: {matchLabels: {tier: db}}}, inject: {spec: {containers: [{name: b, image: "b:1"}]}}`, want: "b:1"},
		{why: "and it does so whatever the order", a: `order: 9, inject: {metadata: {labels: {tier: db}}}`, b: `match: {podSelector: {matchLabels: {tier: db}}}, inject: {spec: {containers: [{name: b, image: "b:1"}]}}`, want: "b:1"},
		{why: "one sets the label that the other excludes", a: `inject: {metadata: {labels: {tier: db}}}`, b: `match: {podSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}}, inject: {spec: {containers: [{name: b, image: "b:1"}]}}`, want: "b:1"},
		{why: "the app's containers are not a sidecar of the other", a: `inject: {spec: {containers: [{name: a, image: "a:1"}]}}`, b: `order: 1, inject: {spec: {containers: [{$each: App, args: [b]}]}}`, want: `{"image":"a:1","name":"a"}`},
		{why: "all containers are", a: `inject: {spec: {containers: [{name: a, image: "a:1"}]}}`, b: `order: 1, inject: {spec: {containers: [{$each: All, args: [b]}]}}`, want: `{"args":["b"],"image":"a:1","name":"a"}`},
		{why: "a mount of one hides the other's", a: `inject: {spec: {containers: [{$each: App, volumeMounts: [{name: a, mountPath: /agent}]}], volumes: [{name: a, emptyDir: {}}]}}`, b: `inject: {spec: {containers: [{$each: App, volumeMounts: [{name: b, mountPath: /agent/}]}], volumes: [{name: b, emptyDir: {}}]}}`, refusal: `is hidden by a mount at "/agent/"`},
		{why: "one volume, two sources", a: `inject: {spec: {volumes: [{name: v, emptyDir: {}}]}}`, b: `inject: {spec: {volumes: [{name: v, configMap: {name: c}}]}}`, refusal: "spec.volumes[name=v]"},
		{why: "one container, equal in both", a: `inject: {spec: {containers: [{name: s, image: "s:1"}]}}`, b: `inject: {spec: {containers: [{name: s, image: "s:1"}]}}`, want: "s:1"},
		{why: "one takes away what the other wants", a: `inject: {spec: {$unset: [hostname]}}`, b: `inject: {spec: {hostname: b}}`, refusal: "spec.hostname"},
		{why: "both join texts", a: `inject: {metadata: {annotations: {x: {$append: ",", value: a}}}}`, b: `inject: {metadata: {annotations: {x: {$append: ",", value: b}}}}`, want: `"a,b"`},
		{why: "both join texts, with two separators", a: `inject: {metadata: {annotations: {x: {$append: ",", value: a}}}}`, b: `inject: {metadata: {annotations: {x: {$append: ";", value: b}}}}`, refusal: "different separators"},
		{why: "one replaces the list that the other adds to", a: `inject: {spec: {tolerations: [{$patch: replace}, {key: a}]}}`, b: `inject: {spec: {tolerations: [{key: b}]}}`, refusal: "spec.tolerations"},
		{why: "one replaces a list by what the other takes away", a: `inject: {spec: {containers: [{$each: App, env: [{name: V, $patch: delete}]}]}}`, b: `inject: {spec: {containers: [{$each: App, env: [{$patch: replace}, {name: V, value: b}]}]}}`, refusal: "that template deletes a part of it"},
		{why: "one prepends to what the other sets", a: `inject: {spec: {containers: [{$each: App, env: [{name: V, value: a}]}]}}`, b: `order: 1, inject: {spec: {containers: [{$each: App, env: [{name: V, $append: ",", value: b}]}]}}`, refusal: "env[name=V]"},
	} {
		set := templatestest.Set(t, mandatory("a", c.a), strings.Replace(mandatory("b", c.b), "match: {podSelector: {}}, match", "match", 1))
		pod, got := injectedAndVerified(t, set, podOf(t, plainPod))
		if wantSays(t, c.why, got, c.refusal); pod == nil {
			continue
		}
		if text := strings.Join(strings.Fields(encode(t, pod["spec"])+encode(t, pod["metadata"])), ""); !strings.Contains(strings.ReplaceAll(text, `\`, ""), strings.ReplaceAll(c.want, " ", "")) {
			t.Errorf("%s: %s; want %s", c.why, text, c.want)
		}
		if out := injectIn(t, alone, set, pod); len(out.Operations) > 0 || !out.Allowed {
			t.Errorf("%s: a second call: %s %v", c.why, out.Message, out.Operations)
		}
	}
}

// Of what a required template takes away nothing stays, whatever an ordinary one says of it.
func TestARequiredTemplateTakesAwayAndStandsFirst(t *testing.T) {
	first := `initContainers: [{name: o, image: "o:1", $position: First}]`
	for _, c := range []struct{ why, required, ordinary, pod, want, refusal string }{
		{why: "a volume", required: `volumes: [{name: sock, $patch: delete}]`, pod: `"volumes":[{"name":"sock","hostPath":{"path":"/x"}}]`, want: `{"containers":[{"image":"app:1","name":"app"}],"volumes":[]}`},
		{why: "all volumes", required: `volumes: [{$patch: replace}, {name: own, emptyDir: {}}]`, pod: `"volumes":[{"name":"sock","hostPath":{"path":"/x"}}]`, want: `{"containers":[{"image":"app:1","name":"app"}],"volumes":[{"emptyDir":{},"name":"own"}]}`},
		{why: "a volume that another template adds", required: `volumes: [{name: sock, $patch: delete}]`, ordinary: `volumes: [{name: sock, hostPath: {path: /x}}]`, pod: `"volumes":[]`, refusal: "spec.volumes[name=sock] is present, but the template removes it (that template needs it), and template o sets it so"},
		{why: "a container", required: `initContainers: [{name: evil, $patch: delete}]`, pod: `"initContainers":[{"name":"evil","image":"x"}]`, want: `{"containers":[{"image":"app:1","name":"app"}],"initContainers":[]}`},
		{why: "a whole", required: `securityContext: {$patch: replace, runAsNonRoot: true}`, pod: `"securityContext":{"runAsUser":0}`, want: `{"containers":[{"image":"app:1","name":"app"}],"securityContext":{"runAsNonRoot":true}}`},
		{why: "first, before another template's first", required: `initContainers: [{name: r, image: "r:1", $position: First}]`, ordinary: first, pod: `"initContainers":[{"name":"i","image":"i:1"}]`,
			want: `{"containers":[{"image":"app:1","name":"app"}],"initContainers":[{"image":"r:1","name":"r"},{"image":"o:1","name":"o"},{"image":"i:1","name":"i"}]}`},
		{why: "last", required: `initContainers: [{name: r, image: "r:1"}]`, ordinary: first, pod: `"initContainers":[{"name":"i","image":"i:1"}]`,
			want: `{"containers":[{"image":"app:1","name":"app"}],"initContainers":[{"image":"o:1","name":"o"},{"image":"i:1","name":"i"},{"image":"r:1","name":"r"}]}`},
		{why: "first, in front of what the pod declares", required: `initContainers: [{name: r, image: "r:1", $position: First}]`, pod: `"initContainers":[{"name":"i","image":"i:1"},{"name":"r","image":"r:1"}]`, refusal: "spec.initContainers[name=r] must come first, before i"},
	} {
		set := templatestest.Set(t, mandatory("r", `inject: {spec: {`+c.required+`}}`), manifestNamed("o", `match: {podSelector: {}}, inject: {spec: {`+c.ordinary+`}}`))
		pod, got := injectedAndVerified(t, set, podOf(t, `{"metadata":{"name":"web"},"spec":{`+c.pod+`,"containers":[{"name":"app","image":"app:1"}]}}`))
		wantSays(t, c.why, got, c.refusal)
		if c.refusal == "" && string(podschema.Encode(pod["spec"])) != c.want {
			t.Errorf("%s: %s\nwant %s", c.why, podschema.Encode(pod["spec"]), c.want)
		}
	}
}

// Whoever may update a pod may change its annotations, which no update is judged by. So a validation that
// fails by them hides no other one, and nothing else that is required.
func TestAValidationThatFailsAlreadyHidesNothing(t *testing.T) {
	set := requiredSet(t, audit, `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: audit}
spec:
  match: {namespaceSelector: {matchLabels: {team: shop}}}
  required: true
  validations:
  - {name: owner, expression: "'owner' in pod.metadata.?annotations.orValue({})", message: name an owner}
  - {name: registry, expression: "pod.spec.containers.all(c, c.image.startsWith('good/'))", message: only images of good}
  inject: {spec: {containers: [{$if: "pod.spec.containers.exists(c, c.image.startsWith('good/db'))", name: audit, image: "audit:1"}]}}
`)
	for _, c := range []struct{ why, before, after, says string }{
		{"an image, with an owner", `"annotations":{"owner":"me"}`, "good/b", ""},
		{"an image, without an owner", "", "good/b", ""},
		{"a bad image, without an owner", "", "evil/b", "only images of good"},
		{"an image that needs the sidecar, without an owner", "", "good/db", "spec.containers[name=audit] is missing"},
	} {
		old := podOf(t, `{"metadata":{`+c.before+`},"spec":{"containers":[{"name":"app","image":"good/a"}]}}`)
		pod := patched(t, old, `[{"op":"replace","path":"/spec/containers/0/image","value":"`+c.after+`"}]`)
		wantSays(t, c.why, verifyRequired(t, set, Request{Operation: "UPDATE", Pod: pod}, old), c.says)
	}
}

// Of a canary of a required template, its own spec.verify counts, when a pod is made and when it changes.
func TestTheVersionThatAPodGetsSaysWhatIsAccepted(t *testing.T) {
	canary := manifestNamed("r-next", `canary: {of: r, percent: 100, podSelector: {matchLabels: {track: next}}}, podResources: Keep, verify: {images: ["next/*"]}, inject: {spec: {containers: [{name: s, image: "s:2", resources: {limits: {cpu: "1"}}}]}}`)
	set := templatestest.Set(t, mandatory("r", `verify: {images: ["stable/*"]}, inject: {spec: {containers: [{name: s, image: "s:1", resources: {limits: {cpu: "1"}}}]}}`), canary)
	for track, images := range map[string]map[string]bool{
		"stable": {"s:1": true, "s:2": false, "stable/s:1": true, "next/s:2": false},
		"next":   {"s:1": false, "s:2": true, "stable/s:1": false, "next/s:2": true},
	} {
		pod := podOf(t, `{"metadata":{"name":"web","labels":{"track":"`+track+`"}},"spec":{"containers":[{"name":"app","image":"app:1","resources":{"limits":{"cpu":"1"}}}],"resources":{"limits":{"cpu":"1"}}}}`)
		made, refusal := injectedAndVerified(t, set, pod)
		if refusal != "" {
			t.Fatalf("%s: %s", track, refusal)
		}
		if got := encode(t, resourcesOf(made)); strings.Contains(got, `"2"`) != (track == "stable") {
			t.Errorf("%s: the pod's resources are %s", track, got)
		}
		for image, accepted := range images {
			changed := patched(t, made, `[{"op":"replace","path":"/spec/containers/1/image","value":"`+image+`"}]`)
			for _, operation := range []string{"CREATE", "UPDATE"} {
				if got := verifyRequired(t, set, Request{Operation: operation, Pod: changed}, made); (got == "") != accepted {
					t.Errorf("%s of a pod of %s with %s: %q", operation, track, image, got)
				}
			}
		}
	}
}

// An edit refuses no pod that is being created. Which version a pod was made with, its label says, and a
// forger of the label can have the version before for no longer.
func TestAVersionCountsForAMinuteBesideTheNext(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	before, after := templatestest.Set(t, mandatory("r", `inject: {spec: {containers: [{name: s, image: "s:1"}]}}`)), templatestest.Set(t, mandatory("r", `inject: {spec: {containers: [{name: s, image: "s:2"}]}}`))
	entry := after.All()[0]
	entry.Previous, entry.Since = before.All()[0].Template, now
	set := templates.NewSet([]templates.Entry{entry})
	made := injectIn(t, alone, before, podOf(t, plainPod)).Pod
	const label = "/metadata/labels/r.pillion.dev~1hash"
	for _, c := range []struct {
		why, change string
		after       time.Duration
		accepted    bool
	}{
		{"at once", `[]`, 0, true},
		{"within the minute", `[]`, time.Minute, true},
		{"later", `[]`, time.Minute + time.Second, false},
		{"without the label", `[{"op":"remove","path":"` + label + `"}]`, 0, false},
		{"with another label", `[{"op":"replace","path":"` + label + `","value":"` + entry.Template.Hash()[:10] + `"}]`, 0, false},
		{"with an image of neither", `[{"op":"replace","path":"/spec/containers/1/image","value":"evil:1"}]`, 0, false},
		{"with a part of the label", `[{"op":"replace","path":"` + label + `","value":"` + entry.Previous.Hash()[:2] + `"}]`, 0, false},
	} {
		got := verifyRequired(t, set, Request{Operation: "CREATE", Now: now.Add(c.after), Pod: patched(t, made, c.change)}, nil)
		if (got == "") != c.accepted {
			t.Errorf("%s: %q", c.why, got)
		}
	}
	// A running pod has time: an update counts by the version in force.
	running := injectIn(t, alone, after, podOf(t, plainPod)).Pod
	back := patched(t, running, `[{"op":"replace","path":"/spec/containers/1/image","value":"s:1"}]`)
	if got := verifyRequired(t, set, Request{Operation: "UPDATE", Now: now, Pod: back}, running); got == "" {
		t.Error("an update to the image of the version before is admitted")
	}
}

// A container reads $(NAME) as the last NAME in front of it. So a variable that has the required value is not enough.
func TestAVariableOfTheAppRefersToTheOnesThatAreRequired(t *testing.T) {
	set := templatestest.Set(t, mandatory("r", `inject: {spec: {containers: [{$each: App, env: [{name: DIR, value: /agent}, {name: OPTS, value: "$(DIR)/x $(OWN) $(OPTS)"}, {name: PLAIN, value: "1"}]}]}}`))
	const dir, options, says = `{"name":"DIR","value":"/agent"}`, `{"name":"OPTS","value":"$(DIR)/x $(OWN) $(OPTS)"}`, "spec.containers[name=app].env[name=DIR] must come before OPTS, which refers to it, with no other value in front"
	for env, says := range map[string]string{
		``:                                       "",
		options:                                  says,
		dir:                                      "",
		`{"name":"PLAIN","value":"1"}`:           "",
		dir + `,` + options:                      "",
		options + `,` + dir:                      says,
		`{"name":"OPTS"},` + dir + `,` + options: "",
		`{"name":"DIR","value":"/evil"},` + options + `,` + dir:                   says,
		dir + `,{"name":"DIR","value":"/evil"},` + options + `,` + dir:            says,
		`{"name":"DIR","value":"/evil"},` + dir + `,` + options:                   "",
		dir + `,` + options + `,{"name":"DIR","value":"/evil"},` + dir:            "",
		dir + `,` + options + `,{"name":"DIR","value":"/evil"}`:                   `is {"name":"DIR","value":"/evil"}`,
		`{"name":"OWN","value":"$(DIR)"},` + dir + `,` + options:                  "",
		options + `,` + dir + `,` + options + `,{"name":"OWN","value":"$(OPTS)"}`: "",
	} {
		pod := podOf(t, `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"app:1","env":[`+env+`]}]}}`)
		_, got := injectedAndVerified(t, set, pod)
		wantSays(t, env, got, says)
	}
}

// A pod has other labels when it is verified than when it came: a required template sets some of them.
func TestLabelsThatRequiredTemplatesSetChooseTheSameOnCreationAndOnVerification(t *testing.T) {
	tier := `podSelector: {matchLabels: {tier: db}}`
	selecting := func(name, selector, inject string) string {
		return manifestNamed(name, "required: true, match: {"+selector+"}, "+inject)
	}
	sets := mandatory("a", `inject: {metadata: {labels: {tier: db}}, spec: {containers: [{name: a, image: "a:1"}]}}`)
	for why, c := range map[string]struct {
		templates []string
		want      string // the names of the containers
	}{
		"a canary selects by the label that its template sets": {[]string{sets, manifestNamed("a-next", `canary: {of: a, percent: 100, `+tier+`}, inject: {spec: {containers: [{name: a, image: "a:2"}]}}`)}, "app a"},
		"as many are deselected as are selected": {[]string{sets,
			selecting("b", tier, `inject: {spec: {containers: [{name: b, image: "b:1"}]}}`),
			selecting("c", `podSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}`, `inject: {spec: {containers: [{name: c, image: "c:1"}]}}`)}, "app a b c"},
	} {
		set := templatestest.Set(t, c.templates...)
		pod, refusal := injectedAndVerified(t, set, podOf(t, plainPod))
		wantSays(t, why, refusal, "")
		var names []string
		for _, container := range itemsOf(pod, "containers") {
			names = append(names, nameOf(container))
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: the containers are %s; want %s", why, got, c.want)
		}
	}
}

// A tenant gives a container or a volume of its pod a name that a required template uses for other pods, or in
// another version.

// hardening reaches all that is not its own.
const hardening = `validations: [{name: no-host-path, expression: "pod.spec.?volumes.orValue([]).all(v, !has(v.hostPath))", message: no hostPath}],
  inject: {spec: {
    initContainers: [{$if: "'helper' in pod.metadata.?labels.orValue({})", name: helper, image: "helper:1"}, {$if: "pod.spec.?initContainers.orValue([]).exists(c, c.name == 'before')", name: twin, image: "twin:1"}],
    containers: [{$each: App, env: [{name: HARD, value: "1"}]}, {$each: Init, env: [{name: HARD, value: "1"}]}],
    volumes: [{$if: "'helper' in pod.metadata.?labels.orValue({})", name: agent, emptyDir: {}}]}}`

func TestNothingHidesBehindANameThatARequiredTemplateDoesNotRender(t *testing.T) {
	canary := manifestNamed("r-next", `canary: {of: r, percent: 100, podSelector: {matchLabels: {track: next}}}, inject: {spec: {initContainers: [{name: next, image: "next:1"}], volumes: [{name: next, emptyDir: {}}]}}`)
	set := templatestest.Set(t, mandatory("r", hardening), canary)
	entries := set.All()
	for i, e := range entries {
		if e.Name == "r" {
			before := templatestest.Set(t, mandatory("r", `inject: {spec: {initContainers: [{name: before, image: "before:1"}], volumes: [{name: before, emptyDir: {}}]}}`))
			entries[i].Previous, entries[i].Since = before.All()[0].Template, time.Now().Add(-time.Hour)
		}
	}
	set = templates.NewSet(entries)
	for _, c := range []struct{ why, pod, says string }{
		{"a container under $if", `"initContainers":[{"name":"helper","image":"evil:1"}]`, "spec.initContainers[name=helper] has a name that the template uses for other pods"},
		{"a container of a canary", `"initContainers":[{"name":"next","image":"evil:1"}]`, "spec.initContainers[name=next] has a name"},
		{"a container of the version before", `"initContainers":[{"name":"before","image":"evil:1"}]`, ""},
		{"a volume under $if", `"volumes":[{"name":"agent","hostPath":{"path":"/"}}]`, "spec.volumes[name=agent] has a name"},
		{"a volume of a canary", `"volumes":[{"name":"next","hostPath":{"path":"/"}}]`, "spec.volumes[name=next] has a name"},
		{"a volume of the version before", `"volumes":[{"name":"before","hostPath":{"path":"/"}}]`, "no hostPath"},
		{"a container that is rendered because the pod has another", `"initContainers":[{"name":"before","image":"evil:1"},{"name":"twin","image":"twin:1","args":["evil"]}]`, "spec.initContainers[name=twin]"},
	} {
		pod := podOf(t, `{"metadata":{"name":"web"},"spec":{`+c.pod+`,"containers":[{"name":"app","image":"app:1"}]}}`)
		got, refusal := injectedAndVerified(t, set, pod)
		wantSays(t, c.why, refusal, c.says)
		for _, container := range itemsOf(got, "initContainers") {
			if nameOf(container) != "twin" && !strings.Contains(encode(t, container), "HARD") {
				t.Errorf("%s: the container %s is not reached", c.why, nameOf(container))
			}
		}
		if c.says == "" && got == nil {
			continue
		}
		wantSays(t, c.why, verifyRequired(t, set, Request{Operation: "CREATE", Pod: pod}, nil), cmp.Or(c.says, "HARD"))
	}
}
