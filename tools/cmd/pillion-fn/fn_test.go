package main

import (
	"bytes"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// resourceList is what an orchestrator gives a function: a namespace that asks for a template, the
// template, and two objects from a file. One of these has a pod.
const resourceList = `apiVersion: config.kubernetes.io/v1
kind: ResourceList
functionConfig:
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: pillion}
  data:
    library: fluent-bit
    values: |
      region: eu-1
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {pillion.dev/inject: region}}}
- apiVersion: pillion.dev/v1alpha1
  kind: SidecarTemplate
  metadata: {name: region}
  spec:
    parameters: [{name: zone, type: string, enum: [a, b], default: a}]
    inject: {spec: {containers: [{$each: App, env: [{name: REGION, value: "${values.region}-${params.zone}"}]}]}}
- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 12345678901234567890}], y: n, off: 0644, z: !!binary aGk=}}
- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: web
    namespace: shop
    annotations: {internal.config.kubernetes.io/path: web.yaml, internal.config.kubernetes.io/index: "1"}
  spec: {template: {metadata: {annotations: {region.pillion.dev/zone: ZONE}}, spec: {containers: [{name: web, image: nginx}]}}}
`

// listed is a ResourceList that a function wrote.
type listed struct {
	Items   []map[string]any `json:"items"`
	Results []struct {
		Message, Severity string
		ResourceRef       map[string]string
		File              struct {
			Path  string
			Index int
		}
	} `json:"results"`
}

func function(t *testing.T, in string, want int) (out string, list listed, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(nil, strings.NewReader(in), &stdout, &stderr)
	if err := yaml.Unmarshal(stdout.Bytes(), &list); err != nil || code != want {
		t.Fatalf("exit %d, %v\n%s%s", code, err, &stdout, &stderr)
	}
	return stdout.String(), list, stderr.String()
}

func TestAsAFunctionItInjectsIntoTheItemsOfAResourceList(t *testing.T) {
	in := strings.ReplaceAll(resourceList, "ZONE", "b")
	out, list, errs := function(t, in, 0)
	if !strings.Contains(out, "value: eu-1-b") || !strings.Contains(out, "[{port: 12345678901234567890}], y: n, off: 0644, z: !!binary aGk=}") || len(list.Items) != 4 || list.Items[1]["kind"] != v1alpha1.Kind || len(list.Results) > 0 || errs != "" {
		t.Errorf("%d items, %v, %q\n%s", len(list.Items), list.Results, errs, out)
	}
	if again, _, _ := function(t, out, 0); again != out {
		t.Errorf("a second time it gives\n%s", again)
	}
	head, items, _ := strings.Cut(in, "items:\n")
	inList := head + "items:\n- apiVersion: v1\n  kind: List\n  items:\n  " + strings.ReplaceAll(items, "\n", "\n  ")
	if out, _, errs := function(t, inList, 0); !strings.Contains(out, "value: eu-1-b") || errs != "" {
		t.Errorf("as items of a List: %q\n%s", errs, out)
	}
	// An anchor in an item that changes cannot be referred to from one that does not.
	shared := strings.NewReplacer("ZONE", "b", "{ports: [{port: 12345678901234567890}]", "{x: *y, ports: [{port: 12345678901234567890}]", "image: nginx}", "image: &y nginx}").Replace(resourceList)
	first, rest, _ := strings.Cut(shared, "- {apiVersion: v1, kind: Service")
	service, deployment, _ := strings.Cut(rest, "- apiVersion: apps/v1")
	if out, _, _ := function(t, first+"- apiVersion: apps/v1"+deployment+"- {apiVersion: v1, kind: Service"+service, 0); !strings.Contains(out, "value: eu-1-b") || strings.Contains(out, "*y") {
		t.Errorf("with an anchor:\n%s", out)
	}
}

func TestAFunctionThatRefusesAPodSaysSoInItsResultsAndChangesNothing(t *testing.T) {
	_, list, errs := function(t, strings.ReplaceAll(resourceList, "ZONE", "c"), 1)
	if len(list.Results) != 1 || len(list.Items) != 4 {
		t.Fatalf("%d items, %v", len(list.Items), list.Results)
	}
	r := list.Results[0]
	if r.Severity != "error" || r.ResourceRef["kind"] != "Deployment" || r.ResourceRef["name"] != "web" || r.ResourceRef["namespace"] != "shop" || r.ResourceRef["apiVersion"] != "apps/v1" ||
		r.File.Path != "web.yaml" || r.File.Index != 1 || !strings.Contains(r.Message, "BadParameter") || !strings.Contains(errs, r.Message) {
		t.Errorf("%+v\n%s", r, errs)
	}
	if _, list, _ := function(t, strings.ReplaceAll(resourceList, "image: nginx}", "image: nginx}, 1"), 1); len(list.Results) != 1 || list.Results[0].ResourceRef["name"] != "web" || list.Results[0].File.Path != "web.yaml" {
		t.Errorf("a pod that cannot be read: %v", list.Results)
	}
	for name, c := range map[string]struct{ old, now, says string }{
		"an unknown flag":   {"library: fluent-bit", "libary: fluent-bit", `unknown key "libary"; did you mean library?`},
		"no flag":           {"library: fluent-bit", `help: "true"`, `unknown key "help"`},
		"no text":           {"library: fluent-bit", "library: [fluent-bit]", `data["library"] must be text`},
		"another list":      {"kind: ResourceList", "kind: List", "must have apiVersion config.kubernetes.io/v1 and kind ResourceList"},
		"a bad value":       {"library: fluent-bit", "library: fluent-bot", "fluent-bot"},
		"another kind":      {"kind: ConfigMap", "kind: Pillion", "must be a ConfigMap of apiVersion v1"},
		"a bad pod":         {"containers: [{name: web, image: nginx}]", "containers: [web]", `spec.template.spec.containers[0]: "web": json: cannot unmarshal string`},
		"a bad namespace":   {"metadata: {name: shop,", "metadata: {name: shop, labels: {a: 1},", `metadata.labels.a: 1: json: cannot unmarshal number`},
		"a misspelled data": {"  data:", "  dat:", `unknown field "dat"; did you mean data?`},
		"binary data":       {"  data:", "  binaryData: {region: ZXU=}\n  data:", `unknown field "binaryData"`},
	} {
		_, list, errs := function(t, strings.Replace(resourceList, c.old, c.now, 1), 1)
		if !strings.Contains(errs, c.says) {
			t.Errorf("%s: %q lacks %q", name, errs, c.says)
		}
		if strings.Contains(errs, "reading a ResourceList") {
			continue
		}
		if len(list.Items) != 4 || len(list.Results) != 1 || list.Results[0].Severity != "error" || !strings.Contains(list.Results[0].Message, c.says) {
			t.Errorf("%s: %d items, %v", name, len(list.Items), list.Results)
		}
	}
}
