package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/library"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

const apiSpec = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: audit}
spec:
`

// Refused are the certain ones; of the rest a person is warned, because some pod may be
// accepted.
func TestTheGuardRefusesOnlyWhatNoPodIsAcceptedWith(t *testing.T) {
	const sidecar = "  inject: {spec: {initContainers: [{name: %NAME, image: 'a:1', restartPolicy: Always%MORE}]}}\n"
	with := func(name, more string) string {
		return strings.NewReplacer("%NAME", name, "%MORE", more).Replace(sidecar)
	}
	for _, c := range []struct{ why, spec, refused, warned string }{
		{"a good one", with("audit", ""), "", ""},
		{"a name with an underscore", with("audit_sidecar", ""), `spec.inject.spec.initContainers[0]: the API server would refuse each pod that gets this: spec.initContainers[audit_sidecar].name: Invalid value: "audit_sidecar"`, ""},
		{"a name with an underscore, for some pods", "  matchConditions: [{name: no-jobs, expression: 'pod.spec.?restartPolicy.orValue(\"\") != \"OnFailure\"'}]\n" + with("audit_sidecar", ""), "audit_sidecar", ""},
		{"a name with an underscore, for pods that no sample is", "  matchConditions: [{name: gpu, expression: 'pod.spec.?runtimeClassName.orValue(\"\") == \"gpu\"'}]\n" + with("audit_sidecar", ""), "", ""},
		{"a name that a team may set", "  parameters: [{name: name, type: string, default: audit_x}]\n" + with("'${params.name}'", ""), "", "audit_x"},
		{"a mount without its volume", with("audit", ", volumeMounts: [{name: data, mountPath: /data}]"), `would refuse pods that get this: spec.initContainers[audit].volumeMounts[/data].name: Not found: "data"; declare it in spec.inject.spec.volumes`, ""},
		{"a mount of a volume that the template asks for", "  validations: [{name: has-data, expression: 'pod.spec.?volumes.orValue([]).exists(v, v.name == \"data\")'}]\n" + with("audit", ", volumeMounts: [{name: data, mountPath: /data}]"), "", ""},
		{"a misspelt volume", "  inject: {spec: {volumes: [{name: logs, emptyDir: {}}], initContainers: [{name: audit, image: 'a:1', volumeMounts: [{name: lgos, mountPath: /logs}]}]}}\n", "did you mean logs?", ""},
		{"a request above the limit", with("audit", ", resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}"), "must be less than or equal to memory limit of 1Gi", ""},
		{"a request above a limit that a team may set", "  parameters: [{name: memory, type: quantity, default: 1Gi}]\n" + with("audit", ", resources: {requests: {memory: 2Gi}, limits: {memory: '${params.memory}'}}"), "", "must be less than or equal to memory limit of 1Gi"},
		{"a request above a limit, for an app container", "  inject: {spec: {containers: [{$each: App, resources: {requests: {example.com/x: 2}, limits: {example.com/x: 1}}}]}}\n", "", "must be less than or equal to example.com/x limit of 1"},
		{"a bad label", "  inject: {metadata: {labels: {a: 'b!'}}}\n", `metadata.labels: Invalid value: "b!"`, ""},
		{"a user of Linux, for both systems", "  os: [linux, windows]\n" + with("audit", ", securityContext: {runAsUser: 1000}"), "", "would refuse some pods that get this (1 of 5 tried): spec.initContainers[audit].securityContext.runAsUser: Forbidden: cannot be set for a windows pod"},
		{"a user of Linux, for Windows", "  os: [windows]\n" + with("audit", ", securityContext: {runAsUser: 1000}"), "", "would refuse pods that get this: spec.initContainers[audit].securityContext.runAsUser: Forbidden: cannot be set for a windows pod"},
		{"a good one for both systems", "  os: [linux, windows]\n  containerSecurity: Restricted\n" + with("audit", ""), "", ""},
		{"a bad port in an app container", "  inject: {spec: {containers: [{$each: App, ports: [{containerPort: 70000}]}]}}\n", "must be between 1 and 65535", ""},
	} {
		text := []byte(apiSpec + c.spec)
		tmpl, _, err := templates.Compile(text, templates.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		problems, warnings := lint.APIRules(templates.Document{Manifest: text, Line: 1}, tmpl, templates.Options{})
		var refused, warned []string
		for _, p := range problems {
			refused = append(refused, p.Path+": "+p.Message)
		}
		for _, w := range warnings {
			warned = append(warned, w.String())
		}
		for _, says := range []struct {
			what, want string
			got        []string
		}{{"refused", c.refused, refused}, {"warned", c.warned, warned}} {
			if all := strings.Join(says.got, "\n"); says.want == "" && all != "" || !strings.Contains(all, says.want) {
				t.Errorf("%s: %s of %q; want %q", c.why, says.what, all, says.want)
			}
		}
	}
}

func TestTheGuardHasNothingAgainstTheLibrary(t *testing.T) {
	for _, name := range library.Names() {
		text, err := library.Get(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		tmpl := templatestest.Compile(t, string(text))
		if problems, warnings := lint.APIRules(templates.Document{Manifest: text, Line: 1}, tmpl, templates.Options{}); len(problems)+len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, problems, warnings)
		}
	}
}

// FuzzAPIRules holds that the guard says the same of a template each time, that lint has an
// error wherever the guard refuses, and that no manifest makes it panic.
//
//fuzz:slow it compiles a template and injects it into the sample pods for each input
func FuzzAPIRules(f *testing.F) {
	for _, seed := range []string{
		"  inject: {spec: {initContainers: [{name: a_b, image: 'a:1', resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}}\n",
		"  inject: {spec: {containers: [{$each: App, volumeMounts: [{name: x, mountPath: '/]['}], ports: [{containerPort: 0}]}]}}\n",
		"  inject: {metadata: {labels: {'a b': '!'}}, spec: {volumes: [{name: A, configMap: {}}]}}\n",
	} {
		f.Add([]byte(apiSpec + seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4<<10 {
			return
		}
		tmpl, _, err := templates.Compile(text, templates.Options{})
		if err != nil {
			return
		}
		document := templates.Document{Manifest: text, Line: 1}
		problems, warnings := lint.APIRules(document, tmpl, templates.Options{})
		again, warned := lint.APIRules(document, tmpl, templates.Options{})
		if !slices.Equal(problems, again) || !slices.Equal(warnings, warned) {
			t.Fatalf("%v %v, and then %v %v", problems, warnings, again, warned)
		}
		if len(problems) == 0 {
			return
		}
		for _, r := range lint.Run([]lint.Document{{Source: "t.yaml", Document: document}}, lint.Options{}) {
			if !slices.ContainsFunc(r.Findings, func(f lint.Finding) bool { return f.Severity == lint.Error && f.Rule == "api" }) {
				t.Fatalf("the guard refuses what lint finds nothing wrong with: %v", problems)
			}
		}
	})
}
