package main

import (
	"regexp"
	"strings"
	"testing"
)

// explainFiles are two templates that a namespace asks for, the first in two versions.
var explainFiles = map[string]string{
	"ns.yaml":  "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: 'side,label'}}\n",
	"one.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: side}}\n",
	"old.yaml": explainSide("1") + "---\n" + explainLabel,
	"new.yaml": explainSide("2") + "---\n" + explainLabel,
}

const explainLabel = "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: label}\nspec: {inject: {metadata: {labels: {a: b}}}}\n"

func explainSide(tag string) string {
	return `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: side}
spec:
  parameters: [{name: image, type: image, default: "registry.example.com/side:` + tag + `"}]
  inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "${params.image}"}]}}
`
}

// explained injects a pod with some files and explains the resulting pod with others.
func explained(t *testing.T, inject, explain []string) string {
	t.Helper()
	code, injected, errs := call(t, pod(""), explainFiles, append([]string{"inject", "-f", "-", "--library", "environment"}, inject...)...)
	if code != exitDone {
		t.Fatalf("inject: exit %d: %s", code, errs)
	}
	code, out, errs := call(t, injected, explainFiles, append([]string{"explain", "-f", "-", "--library", "environment"}, explain...)...)
	if code != exitDone {
		t.Fatalf("explain: exit %d: %s", code, errs)
	}
	return out
}

func TestExplainSaysOfAnInjectedPodHowItDiffersFromOneThatIsCreatedNow(t *testing.T) {
	before := []string{"--namespace-file", "DIR/ns.yaml", "--templates", "DIR/old.yaml"}
	for name, c := range map[string]struct {
		inject, explain []string
		says            []string // regular expressions
		not             string
	}{
		"the same templates": {before, before, []string{
			`^Pod/web in namespace shop: injected already, nothing to change \(Injected\)\n`,
			`(?m)^  side +injected already, version [0-9a-f]+$`, `(?m)^  label +injected already, version [0-9a-f]+$`,
		}, "outdated"},
		"a newer version": {before, []string{"--namespace-file", "DIR/ns.yaml", "--templates", "DIR/new.yaml"}, []string{
			`^Pod/web in namespace shop: injected, and outdated: side; created now: Injected\n`,
			`(?m)^  side +outdated: the pod has version [0-9a-f]+, a new one gets\n +[0-9a-f]+$`, `(?m)^  label +injected already, version [0-9a-f]+$`,
			`(?m)^  differs +spec.initContainers\[name=side\]`,
			`(?m)^Parameters of side\n  image +registry.example.com/side:2 \(Default\)$`,
		}, "injected (Injected)"},
		"one more template": {[]string{"--namespace-file", "DIR/one.yaml", "--templates", "DIR/old.yaml"}, []string{"--namespace-file", "DIR/ns.yaml", "--templates", "DIR/new.yaml"}, []string{
			`^Pod/web in namespace shop: injected, and outdated: side; missing: label; created\n +now: Injected\n`,
			`(?m)^  label +missing: a new pod gets version [0-9a-f]+$`,
		}, ""},
		"one less template": {before, []string{"--namespace-file", "DIR/one.yaml", "--templates", "DIR/old.yaml"}, []string{
			`(?m)^  label +the pod has version [0-9a-f]+, and a new one does not get it\n +\(NotRequested\)$`, `note: label was injected before \(pillion.dev/status\)`,
		}, "outdated"},
	} {
		t.Run(name, func(t *testing.T) {
			out := explained(t, c.inject, c.explain)
			for _, want := range c.says {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("nothing like %s in\n%s", want, out)
				}
			}
			if c.not != "" && strings.Contains(out, c.not) {
				t.Errorf("%q in\n%s", c.not, out)
			}
		})
	}
}

func TestExplainSaysThatARunningPodLacksWhatItWouldGetNow(t *testing.T) {
	running := strings.Replace(pod(""), "name: web}", "name: web, uid: 6a2d1f7e-53c1-4f2c-9a53-6f0a0c8c4b11}", 1)
	_, out, errs := call(t, running, explainFiles, "explain", "-f", "-", "--namespace-file", "DIR/one.yaml", "--templates", "DIR/old.yaml", "--library", "environment")
	if !strings.HasPrefix(out, "Pod/web in namespace shop: not injected; missing: side; created now: Injected\n") {
		t.Errorf("%s%s", out, errs)
	}
}
