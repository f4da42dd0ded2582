package injector

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

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
