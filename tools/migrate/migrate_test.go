package migrate_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/tools/migrate"
)

var update = flag.Bool("update", false, "write testdata/*.want.yaml anew")

func imported(t *testing.T, text string) (manifests string, notes []migrate.Note) {
	t.Helper()
	documents, err := workload.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	made, notes := migrate.Import(documents)
	var all []string
	for _, template := range made {
		text, err := workload.YAML(template)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return strings.Join(all, "---\n"), notes
}

// What the projects publish as examples becomes templates that lint passes, and what is left is
// listed: both stand in testdata/NAME.want.yaml.
func TestPublishedExamplesAreImported(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".want.yaml") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		manifests, notes := imported(t, string(text))
		got := ""
		for _, n := range notes {
			got += "# " + n.String() + "\n"
		}
		got += manifests
		want := strings.TrimSuffix(file, ".yaml") + ".want.yaml"
		if *update {
			if err := os.WriteFile(want, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if expected, err := os.ReadFile(want); err != nil || string(expected) != got {
			t.Errorf("%s: %v; it gives\n%s", file, err, got)
		}
		var documents []lint.Document
		for _, d := range templates.ParseFile([]byte(manifests)) {
			documents = append(documents, lint.Document{Source: file, Document: d})
		}
		for _, r := range lint.Run(documents, lint.Options{}) {
			for _, f := range r.Findings {
				if f.Severity == lint.Error {
					t.Errorf("%v", f)
				}
			}
		}
	}
}

// Nobody gets a sidecar who had none: where a part is not carried over that chooses pods, or that
// changes them, a note names it and the template is suspended.
func TestWhatIsLostIsNotedAndSuspends(t *testing.T) {
	const (
		rule   = "kind: ClusterPolicy\nmetadata: {name: p}\nspec: {%s rules: [{name: r, match: {any: [{resources: {kinds: [%s]%s}}]}, mutate: {%s}}]}\n"
		policy = "kind: MutatingAdmissionPolicy\nmetadata: {name: p}\nspec: {matchConstraints: {%s resourceRules: [{apiGroups: ['*'], operations: [%s], resources: [%s]%s}]}, %s" +
			" mutations: [{applyConfiguration: {expression: %q}}]}\n---\nkind: MutatingAdmissionPolicyBinding\nspec: {policyName: p%s}\n"
		ofPod      = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 's', image: 'a'}]}}"
		ofWorkload = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 's', image: 'a'}]}}}}"
		sidecar    = "patchStrategicMerge: {spec: {containers: [{name: s, image: a}]}}"
		patch      = sidecar + ", patchesJson6902: '- %s'"
	)
	for _, c := range []struct{ lost, input string }{
		{"patchesJson6902[0]", fmt.Sprintf(rule, "", "Pod", "", fmt.Sprintf(patch, "{op: add, path: /spec/containers, value: [{name: t, image: b}]}"))},
		{"match.kinds", fmt.Sprintf(rule, "", "CronJob", "", "patchStrategicMerge: {spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: s, image: a}]}}}}}}")},
		{"matchConstraints.objectSelector", fmt.Sprintf(policy, "objectSelector: {matchLabels: {a: b}}, ", "CREATE", "deployments", "", "", ofWorkload, "")},
		{"matchConditions.c", fmt.Sprintf(policy, "", "CREATE", "deployments", "", `matchConditions: [{name: c, expression: "has(object.metadata.labels)"}], `, ofWorkload, "")},
		{"matchResources.objectSelector", fmt.Sprintf(policy, "", "CREATE", "deployments", "", "", ofWorkload, ", matchResources: {objectSelector: {matchLabels: {a: b}}}")},
		{"matchConditions.c", fmt.Sprintf(policy, "", "CREATE", "pods", "", `matchConditions: [{name: c, expression: "object.spec.containers.all(object, object.name != 'x')"}], `, ofPod, "")},
		{"spec.admission", fmt.Sprintf(rule, "admission: false, ", "Pod", "", sidecar)},
		{"webhookConfiguration.matchConditions", fmt.Sprintf(rule, "webhookConfiguration: {matchConditions: [{name: x, expression: 'false'}]}, ", "Pod", "", sidecar)},
		{"spec.applyRules", "kind: ClusterPolicy\nspec: {applyRules: One, rules: [{mutate: {}}, {match: {resources: {kinds: [Pod]}}, mutate: {" + sidecar + "}}]}"},
		{"resources.operations", fmt.Sprintf(rule, "", "Pod", ", operations: [UPDATE]", sidecar)},
		{"resources.selector", fmt.Sprintf(rule, "", "Pod", ", selector: {matchLabels: {a: 'web*'}}", sidecar)},
		{"match.kinds", fmt.Sprintf(rule, "", "apps.kruise.io/v1beta1/StatefulSet", "", sidecar)},
		{"resourceRules[0].operations", fmt.Sprintf(policy, "", "UPDATE", "pods", "", "", ofPod, "")},
		{"resourceRules[0].resourceNames", fmt.Sprintf(policy, "", "CREATE", "pods", ", resourceNames: [a]", "", ofPod, "")},
		{"matchResources.resourceRules", fmt.Sprintf(policy, "", "CREATE", "pods", "", "", ofPod, ", matchResources: {resourceRules: [{resources: [pods], resourceNames: [a]}]}")},
		{"evaluation.admission", strings.ReplaceAll(fmt.Sprintf(policy, "", "CREATE", "pods", "", "evaluation: {admission: {enabled: false}}, ", ofPod, ""), "MutatingAdmissionPolicy\n", "MutatingPolicy\n")},
		{"spec.containers[0]", fmt.Sprintf(rule, "", "Pod", "", "patchStrategicMerge: {spec: {containers: [{(name): 'nginx*', tty: true}, {name: s, image: a}]}}")},
		{"spec.containers[0].$patch", fmt.Sprintf(rule, "", "Pod", "", "patchStrategicMerge: {spec: {containers: [{name: legacy, $patch: delete}, {name: s, image: a}]}}")},
		{"spec.$retainKeys", fmt.Sprintf(rule, "", "Pod", "", "patchStrategicMerge: {spec: {$retainKeys: [a], containers: [{name: s, image: a}]}}")},
		{"metadata.labels", fmt.Sprintf(rule, "", "Pod", "", "patchStrategicMerge: {metadata: {labels: '{{ a }}'}, spec: {containers: [{name: s, image: a}]}}")},
		{"patchesJson6902[0]", fmt.Sprintf(rule, "", "Pod", "", fmt.Sprintf(patch, `{op: add, path: /metadata/labels, value: "{{ a }}"}`))},
		{"metadata.labels", "sidecarInjectorWebhook: {templates: {a: 'metadata: {labels: {{ toJson .Labels }}}\n\n\n  spec: {containers: [{name: s, image: a}]}'}}"},
		{"mutations[0].metadata.labels", fmt.Sprintf(policy, "", "CREATE", "deployments", "", "", strings.Replace(ofWorkload, "spec.template{", "spec.template{metadata: Object.spec.template.metadata{labels: variables.l}, ", 1), "")},
		{"spec.template", fmt.Sprintf(policy, "", "CREATE", "deployments", "", "", "Object{spec: Object.spec{template: variables.t}}", "")},
		{"spec", fmt.Sprintf(policy, "", "CREATE", "pods", "", "", "Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: variables.whole}", "")},
		{"metadata.annotations", "sidecarInjectorWebhook: {templates: {a: '{metadata: {annotations: {\"{{ .Key }}\": v}}, spec: {containers: [{name: s, image: a}]}}'}}"},
		{"spec", "sidecarInjectorWebhook: {templates: {a: '{spec: {\"{{ .Key }}\": v, containers: [{name: s, image: a}]}}'}}"},
		{"neverInjectSelector", "sidecarInjectorWebhook: {neverInjectSelector: [{matchLabels: {a: b}}], templates: {a: '{spec: {containers: [{name: s, image: a}]}}'}}"},
		{"spec.selector", "{kind: SidecarSet, spec: {containers: [{name: s, image: a}]}}"},
		{"hostAliases", "{name: a, hostAliases: {ip: 1.2.3.4}, containers: [{name: s, image: a}]}"},
		{"env", "{name: a, env: text, containers: [{name: s, image: a}]}"},
		{"spec.containers", "{kind: SidecarSet, spec: {selector: {matchLabels: {a: b}}, containers: {name: s}, volumes: [{name: v, emptyDir: {}}]}}"},
	} {
		manifests, notes := imported(t, c.input)
		noted := slices.ContainsFunc(notes, func(n migrate.Note) bool { return strings.HasSuffix(n.At, c.lost) })
		if !noted || manifests != "" && !strings.Contains(manifests, "suspend: true") {
			t.Errorf("%s\ngives, without a note on %s or not suspended,\n%v\n%s", c.input, c.lost, notes, manifests)
		}
	}
}

// Nothing that is no configuration breaks the import, and what comes out is always the same.
func FuzzImport(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("kind: SidecarSet\nspec: {containers: [null, 1, {}], selector: [], namespaceSelector: {namespaces: {}}, patchPodMetadata: [1]}")
	f.Add("kind: ClusterPolicy\nspec: {rules: [{match: {any: [1]}, mutate: {patchesJson6902: '1', patchStrategicMerge: {spec: {containers: [{(name): []}]}}}}]}")
	f.Add("kind: MutatingPolicy\nspec: {mutations: [{jsonPatch: {expression: '[1, JSONPatch{}]'}}], matchConditions: [1]}")
	f.Add("templates: {a: \"spec: {hostname: '\\uE0007\\uE001', subdomain: '{{ .X }}'}\"}")
	f.Add("kind: List\nitems: [{name: 1, containers: {}}, {kind: ConfigMap, data: {a: 'name: x', b: '['}}]")
	f.Fuzz(func(t *testing.T, text string) {
		documents, err := workload.Parse([]byte(text))
		if err != nil {
			return
		}
		made, notes := migrate.Import(documents)
		again, notesAgain := migrate.Import(documents)
		if !reflect.DeepEqual(made, again) || !reflect.DeepEqual(notes, notesAgain) {
			t.Errorf("%v\n%v\nand then\n%v\n%v", made, notes, again, notesAgain)
		}
		if len(made) == 0 && len(notes) == 0 {
			t.Error("it gives neither a template nor a note")
		}
	})
}
