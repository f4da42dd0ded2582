package main

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/templates"
)

func TestAPromotionKeepsWhatTheStableTemplateSaysOfItsPods(t *testing.T) {
	const stable = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: logs, labels: {team: platform}}
spec:
  match: {namespaceSelector: {matchLabels: {team: a}}}
  required: true
  order: 7
  description: the old one
  inject: {spec: {containers: [{name: logs, image: "logs:1"}]}}
`
	const canary = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: logs-next}
spec:
  canary: {of: logs, percent: 10}
  description: the new one
  inject: {spec: {containers: [{name: logs, image: "logs:2"}]}}
---
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: logs-bad}
spec:
  canary: {of: logs, percent: 10}
  overridable: true
  inject: {spec: {containers: [{name: logs, image: "logs:2"}]}}
---
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: logs-all}
spec:
  canary: {of: logs, percent: 500}
  inject: {spec: {containers: [{name: logs, image: "logs:2"}]}}
---
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: logs-of-next}
spec: {canary: {of: logs-next}, inject: {}}
---
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: shipper}
spec: {canary: {of: fluent-bit, percent: 10}, inject: {metadata: {labels: {a: b}}}}
`
	files := map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: logs-next}\n", "logs.yaml": stable, "next.yaml": canary}
	code, out, errs := call(t, "", files, "promote", "logs-next", "-o=yaml", "--templates=DIR")
	promoted, _, err := templates.Compile([]byte(out), templates.Options{})
	if code != exitDone || err != nil {
		t.Fatalf("exit code %d %s %v\n%s", code, errs, err, out)
	}
	spec := promoted.Spec()
	if promoted.Name() != "logs" || spec.Canary != nil || !spec.Required || spec.Order != 7 || spec.Match == nil || spec.Description != "the new one" ||
		!strings.Contains(string(spec.Inject), "logs:2") || !strings.Contains(out, "team: platform") {
		t.Errorf("promoted:\n%s", out)
	}
	for args, want := range map[string]string{
		"promote logs -o=yaml --templates=DIR":         "is no canary",
		"promote logs-bad -o=yaml --templates=DIR":     "spec.overridable",
		"promote logs-all -o=yaml --templates=DIR":     "spec.canary.percent",
		"promote logs-of-next -o=yaml --templates=DIR": "is a canary itself",
		"promote nothing -o=yaml --templates=DIR":      "there is no template nothing",
		"promote logs-next --templates=DIR":            "add -o yaml",
		"promote logs-next -o=text":                    "allowed are yaml, json",
		"promote":                                      "takes the name of one canary",
	} {
		code, out, errs := call(t, "", files, strings.Fields(args)...)
		if code == exitDone || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d %s %s, want %q", args, code, out, errs, want)
		}
	}
	// A canary of a template of the library, which no file has.
	if code, out, errs := call(t, "", files, "promote", "shipper", "-o=yaml", "--templates=DIR"); code != exitDone || !strings.Contains(out, "name: fluent-bit") {
		t.Errorf("exit code %d %s %s", code, out, errs)
	}
}
