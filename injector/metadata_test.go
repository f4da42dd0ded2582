package injector

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"

	"github.com/pillion-dev/pillion/templates/templatestest"
)

// metadataSet has templates of every kind that a decision tells apart.
func metadataSet(t *testing.T) *templates.Set {
	t.Helper()
	specs := map[string]string{
		"asked":     "",
		"default":   "injectByDefault: true, ",
		"matching":  "match: {namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: web}}}, ",
		"required":  "required: true, match: {namespaceSelector: {matchLabels: {team: b}}, podSelector: {matchLabels: {app: web}}}, ",
		"suspended": "suspend: true, ",
		"elsewhere": "availableTo: {namespaceSelector: {matchLabels: {team: z}}}, ",
	}
	for name, spec := range specs {
		specs[name] = "{" + spec + "inject: {spec: {initContainers: [{name: " + name + ", restartPolicy: Always, image: x}]}}}"
	}
	return templatestest.Specs(t, specs)
}

// Whatever pod and namespace say, a decision by the metadata is the one for the whole pod,
// and a pod that is injected by it is injected as it would be without.
func TestADecisionByTheMetadataIsTheOneForTheWholePod(t *testing.T) {
	p, set := NewPipeline(Config{ExcludedNamespaces: []string{"kube-system"}}), metadataSet(t)
	records := map[string]string{
		"none": "", "unreadable": "{", "hides the label": `{"v":1,"templates":{"asked":"1"},"pod":{"metadata":{"labels":{"app":"00000000"}}}}`,
		"of a container":       `{"v":1,"templates":{"asked":"1"},"pod":{"spec":{"initContainers":{"$made":true,"name=asked":"00000000"}}}}`,
		"gives a list back":    `{"v":1,"templates":{"asked":"1"},"pod":{"spec":{"initContainers":{"$made":true,"$was":[null]},"containers":{"$removed":[{"at":0,"value":{"name":"b","image":"x"}}]}}}}`,
		"gives an asking back": `{"v":1,"templates":{"asked":"1"},"pod":{"metadata":{"annotations":{"pillion.dev/inject":{"$was":["asked"]}}}}}`,
	}
	values := []string{"-", "", "true", "false", "asked", "asked,default", "+asked", "-default", "+asked,-asked", "nope", "suspended", "elsewhere", "required", "matching", "Yes please"}
	for name, text := range records {
		pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"pillion.dev/status": text}}}
		if _, err := record.Parse(pod); name != "none" && (err != nil) != (name == "unreadable") {
			t.Fatalf("record %s: %v", name, err)
		}
	}
	decided, left := 0, 0
	for _, pod := range values {
		for _, namespace := range []string{"-", "", "true", "false", "asked", "required", "nope", "+asked"} {
			for _, name := range []string{"shop", "kube-system"} {
				for _, team := range []string{"", "a", "b"} {
					for _, app := range []string{"", "web"} {
						for record, text := range records {
							metadata := map[string]any{"labels": map[string]any{"app": app}, "annotations": map[string]any{}}
							annotations := metadata["annotations"].(map[string]any)
							if pod != "-" {
								annotations["pillion.dev/inject"] = pod
							}
							if text != "" {
								annotations["pillion.dev/status"] = text
							}
							r := Request{Operation: "CREATE", Templates: set, Namespace: templates.Namespace{Name: name, Labels: map[string]string{"team": team}, Annotations: map[string]string{}}}
							if namespace != "-" {
								r.Namespace.Annotations["pillion.dev/inject"] = namespace
							}
							r.Pod = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
							got, open := p.DecideByMetadata(r)
							r.Pod = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "x"}}}}
							want, err := p.Inject(t.Context(), r)
							if err != nil {
								t.Fatal(err)
							}
							if open == nil {
								decided++
								got.Pod = want.Pod
							} else {
								left++
								got = want
							}
							if !same(got, want) {
								t.Fatalf("pod %q, namespace %s says %q, team %q, app %q, record %s: by the metadata\n%+v\nwant\n%+v", pod, name, namespace, team, app, record, got, want)
							}
						}
					}
				}
			}
		}
	}
	if decided < 1000 || left < 1000 {
		t.Errorf("%d decided by the metadata, %d not: want many of each", decided, left)
	}
}

// same reports whether two answers are equal, as far as anybody outside can see: what is
// remembered about the values of their operations is not part of them.
func same(a, b Outcome) bool {
	texts := bytes.Equal(patch.Marshal(a.Operations), patch.Marshal(b.Operations))
	a.Operations, b.Operations = nil, nil
	return texts && reflect.DeepEqual(a, b)
}
