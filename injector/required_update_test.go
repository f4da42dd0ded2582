package injector

import (
	"errors"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates"
)

// guarding is required of databases only, and fails for an annotation that is no number.
const guarding = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: audit}
spec:
  match: {namespaceSelector: {matchLabels: {team: shop}}, podSelector: {matchLabels: {app: db}}}
  required: true
  verify: {images: ["mirror.example.com/*"]}
  inject:
    spec:
      initContainers:
      - $if: "pod.spec.containers.exists(c, c.image.startsWith('db:'))"
        name: audit
        restartPolicy: Always
        image: audit:1
        args: ["${string(int(pod.metadata.?annotations['port'].orValue('1')))}"]
        resources: {limits: {memory: 64Mi}}
`

const database = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"db"}},"spec":{"containers":[{"name":"app","image":"db:1"}]}}`

// A tenant may change labels, annotations and the app's image one after the other, so each
// step is judged by the names of the containers alone.
func TestAContainerOfARequiredTemplateIsKnownByItsName(t *testing.T) {
	set := requiredSet(t, audit, guarding)
	made := injectRequired(t, set, podOf(t, database))
	// Its own container has the name, in a pod that the template does not select.
	bystander := podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"app:1"},{"name":"audit","image":"mine:1"}]}}`)
	const (
		unselected = `{"op":"remove","path":"/metadata/labels/app"}`
		failing    = `{"op":"add","path":"/metadata/annotations/port","value":"abc"}`
		otherApp   = `{"op":"replace","path":"/spec/containers/0/image","value":"x:1"}`
		evil       = `[{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}]`
		accepted   = `[{"op":"replace","path":"/spec/initContainers/0/image","value":"mirror.example.com/audit:2"}]`
		smaller    = `[{"op":"replace","path":"/spec/initContainers/0/resources/limits/memory","value":"1Mi"}]`
		backToDB   = `[{"op":"replace","path":"/spec/containers/0/image","value":"db:2"}]`
	)
	for _, c := range []struct {
		why, subresource, before, change, says string
		old                                    map[string]any
	}{
		{why: "the app's image", change: `[` + otherApp + `]`},
		{why: "the sidecar's image", change: evil, says: `the container audit would have the image "evil:1"; must be "audit:1", as the template renders it, or`},
		{why: "its image while it is not rendered", before: otherApp, change: evil,
			says: `the container audit would have the image "evil:1"; the template does not render it for the pod as it is now, so it may have only an image that the template's spec.verify.images allows; or create a new pod`},
		{why: "its image while it is not rendered, to an accepted one", before: otherApp, change: accepted},
		{why: "its size while it is not rendered", subresource: "resize", before: otherApp, change: smaller, says: "the container audit would have the resources"},
		{why: "its image while rendering fails", before: failing, change: evil, says: `the container audit would have the image "evil:1"; the template fails for the pod as it is now`},
		{why: "its image while rendering fails, to an accepted one", before: failing + `,` + unselected, change: accepted},
		{why: "its image while rendering fails and the pod is not selected", before: failing + `,` + unselected, change: evil, says: `the container audit would have the image "evil:1"; the template fails for the pod as it is now`},
		{why: "its size while rendering fails and the pod is not selected", subresource: "resize", before: failing + `,` + unselected, change: smaller, says: "the container audit would have the resources"},
		{why: "the app's image while rendering fails", before: failing, change: backToDB, says: "spec.inject.spec.initContainers[0].args[0]: type conversion error"},
		{why: "the app's image while rendering fails and the pod has the sidecar", before: failing + `,` + unselected, change: backToDB, says: "spec.inject.spec.initContainers[0].args[0]: type conversion error"},
		{why: "the app's image, back", before: otherApp, change: backToDB},
		{why: "the app's image where the pod is none of the template's", old: bystander, before: `{"op":"add","path":"/metadata/annotations","value":{}}`, change: `[` + otherApp + `]`},
		{why: "an own container of the name", old: bystander, before: `{"op":"add","path":"/metadata/annotations","value":{}}`, change: `[{"op":"replace","path":"/spec/containers/1/image","value":"mine:2"}]`,
			says: "the template does not render it for the pod as it is now"},
	} {
		if c.old == nil {
			c.old = made
		}
		old := c.old
		if c.before != "" {
			old = patched(t, old, `[`+c.before+`]`)
		}
		got := verifyRequired(t, set, Request{Operation: "UPDATE", Subresource: c.subresource, Pod: patched(t, old, c.change)}, old)
		wantSays(t, c.why, got, c.says)
	}
}

// The resources of the pod itself bound those of its containers.
func TestAResizeLeavesTheResourcesOfThePodThatARequiredTemplateRenders(t *testing.T) {
	text := strings.Replace(guarding, "    spec:\n", "    spec:\n      resources: {limits: {cpu: 1, memory: \"${pod.spec.containers[0].image == 'db:1' ? '1Gi' : '2Gi'}\"}}\n", 1)
	set := requiredSet(t, audit, text)
	made := injectRequired(t, set, podOf(t, database))
	const (
		otherApp   = `[{"op":"replace","path":"/spec/containers/0/image","value":"db:2"},{"op":"remove","path":"/metadata/labels/app"}]`
		failing    = `[{"op":"add","path":"/metadata/annotations/port","value":"abc"},{"op":"remove","path":"/metadata/labels/app"}]`
		smaller    = `[{"op":"replace","path":"/spec/resources/limits/cpu","value":"1m"}]`
		more       = `[{"op":"add","path":"/spec/resources/requests","value":{"cpu":"1m"}}]`
		asRendered = `[{"op":"replace","path":"/spec/resources/limits/memory","value":"2048Mi"}]`
	)
	for _, c := range []struct{ why, spec, before, change, says string }{
		{"less", text, `[]`, smaller, `spec.resources.limits.cpu is "1m"; must be 1`},
		{"none", text, `[]`, `[{"op":"remove","path":"/spec/resources"}]`, "spec.resources.limits.cpu is missing"},
		{"less, while rendering fails and the pod is not selected", text, failing, smaller, "type conversion error"},
		{"what the template leaves alone", text, `[]`, more, ""},
		{"as rendered by now", text, otherApp, asRendered, ""},
		{"allowed", strings.Replace(text, "verify: {", "verify: {allow: {resources: true}, ", 1), `[]`, smaller, ""},
		{"a template without", guarding, `[]`, smaller, ""},
	} {
		old := patched(t, made, c.before)
		got := verifyRequired(t, requiredSet(t, audit, c.spec), Request{Operation: "UPDATE", Subresource: "resize", Pod: patched(t, old, c.change)}, old)
		wantSays(t, c.why, got, c.says)
	}
	bystander := podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"app:1"}],"resources":{"limits":{"cpu":"2"}}}}`)
	if got := verifyRequired(t, set, Request{Operation: "UPDATE", Subresource: "resize", Pod: patched(t, bystander, smaller)}, bystander); got != "" {
		t.Errorf("a pod that the template never selected: %q", got)
	}
}

// The answer to pods that a broken template selects is the same where they are made and where
// they change.
func TestABrokenRequiredTemplateRefusesUpdatesOfThePodsThatItSelects(t *testing.T) {
	made := injectRequired(t, requiredSet(t, audit, guarding), podOf(t, database))
	_, _, err := templates.Compile([]byte(strings.Replace(guarding, "restartPolicy: Always", "restartPolicies: Always", 1)), templates.Options{})
	set := templates.NewSet([]templates.Entry{{Name: "audit", Err: errors.Join(err)}})
	for _, c := range []struct{ why, before, change, says string }{
		{"the app's image", "", `{"op":"replace","path":"/spec/containers/0/image","value":"x:1"}`, "no good version of it is known"},
		{"the sidecar's", "", `{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}`, "no good version of it is known"},
		{"the sidecar's, relabelled", `{"op":"remove","path":"/metadata/labels/app"}`, `{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}`, `the container audit would have the image "evil:1"`},
		{"metadata", "", `{"op":"add","path":"/metadata/labels/a","value":"b"}`, ""},
		{"another pod's app", `{"op":"remove","path":"/metadata/labels/app"},{"op":"remove","path":"/spec/initContainers"}`, `{"op":"replace","path":"/spec/containers/0/image","value":"x:1"}`, ""},
	} {
		old := made
		if c.before != "" {
			old = patched(t, old, `[`+c.before+`]`)
		}
		got := verifyRequired(t, set, Request{Operation: "UPDATE", Pod: patched(t, old, `[`+c.change+`]`)}, old)
		wantSays(t, c.why, got, c.says)
	}
	if got := verifyRequired(t, set, Request{Operation: "CREATE", Pod: made}, nil); !strings.Contains(got, "no good version of it is known") {
		t.Errorf("where the pod is made: %q", got)
	}
}

func TestNoEphemeralContainerMountsAVolumeOfARequiredTemplate(t *testing.T) {
	set := requiredSet(t, audit, copied)
	old := injectRequired(t, set, podOf(t, plainPod))
	for mount, says := range map[string]string{
		`{"name":"agent","mountPath":"/x"}`:      "the ephemeral container debug mounts the volume agent, which is the template's; mount another volume, or none",
		`{"name":"agent","mountPath":"/shared"}`: "",
		`{"name":"own","mountPath":"/x"}`:        "",
	} {
		pod := patched(t, old, `[{"op":"add","path":"/spec/ephemeralContainers","value":[{"name":"debug","image":"sh:1","targetContainerName":"app","volumeMounts":[`+mount+`]}]}]`)
		got := verifyRequired(t, set, Request{Operation: "UPDATE", Subresource: "ephemeralcontainers", Pod: pod}, old)
		wantSays(t, mount, got, says)
	}
}
