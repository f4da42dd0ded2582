package main

import (
	"strings"
	"testing"
)

const explainLabel = "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: label}\nspec: {inject: {metadata: {labels: {a: b}}}}\n"

const explainSide = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: side}
spec:
  parameters: [{name: image, type: image, default: "registry.example.com/side:1"}]
  inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "${params.image}"}]}}
`

func TestExplainSaysThatARunningPodLacksWhatItWouldGetNow(t *testing.T) {
	running := strings.Replace(pod(""), "name: web}", "name: web, uid: 6a2d1f7e-53c1-4f2c-9a53-6f0a0c8c4b11}", 1)
	files := map[string]string{"ns.yaml": strings.ReplaceAll(shop, "fluent-bit", "side"), "side.yaml": explainSide}
	_, out, errs := call(t, running, files, "explain", "-f", "-", "--namespace-file", "DIR/ns.yaml", "--templates", "DIR/side.yaml", "--library", "environment")
	if !strings.HasPrefix(out, "Pod/web in namespace shop: not injected; missing: side; created now: Injected\n") {
		t.Errorf("%s%s", out, errs)
	}
}
