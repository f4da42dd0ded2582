package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const floored = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: mesh}
spec:
  required: true
  match: {namespaceSelector: {matchLabels: {team: payments}}, podSelector: {matchLabels: {app: web}}}
  parameters: [{name: image, type: image, default: "example.com/proxy:1"}]
  inject: {spec: {initContainers: [{name: mesh, image: "${params.image}", restartPolicy: Always}]}}
`

func TestPolicyPrintsThePolicyAndItsBinding(t *testing.T) {
	files := map[string]string{"mesh.yaml": floored}
	code, out, errs := call(t, "", files, "policy", "mesh", "--library=fluent-bit", "--templates=DIR/mesh.yaml", "--excluded-namespaces=b,a", "--pillion-namespace=sidecars")
	if code != exitDone || errs != "" {
		t.Fatalf("%d %s", code, errs)
	}
	golden := filepath.Join("testdata", "policy.yaml")
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out != string(want) {
		t.Errorf("it prints\n%s\nwant\n%s", out, want)
	}
}

func TestPolicySaysWhyItPrintsNone(t *testing.T) {
	files := map[string]string{"mesh.yaml": floored, "bad.yaml": strings.ReplaceAll(floored, "kind: SidecarTemplate", "kind: Sidecar")}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"policy"}, exitUsage, "the name of one template"},
		{[]string{"policy", "mesh", "fluent-bit"}, exitUsage, "the name of one template"},
		{[]string{"policy", "mesh"}, exitError, `no template "mesh"`},
		{[]string{"policy", "fluent-bit"}, exitError, "spec.required: true"},
		{[]string{"policy", "mesh", "--templates=DIR/bad.yaml"}, exitError, "SidecarTemplate"},
		{[]string{"policy", "mesh", "--templates=DIR/mesh.yaml", "--cluster"}, exitUsage, "--templates is only for files"},
		{[]string{"policy", "mesh", "--excluded-namespaces=a", "--cluster"}, exitUsage, "--excluded-namespaces is only for files"},
	} {
		args := c.args
		if !slices.Contains(args, "--cluster") {
			args = append(args, "--library=fluent-bit")
		}
		code, out, errs := call(t, "", files, args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %d %q %s", c.args, code, out, errs)
		}
	}
}
