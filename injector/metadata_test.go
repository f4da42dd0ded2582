package injector

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pillion-dev/pillion/templates"
)

// metadataSet has templates of every kind that a decision tells apart.
func metadataSet(t *testing.T) *templates.Set {
	t.Helper()
	var entries []templates.Entry
	for name, spec := range map[string]string{
		"asked":     "",
		"default":   "injectByDefault: true, ",
		"matching":  "match: {namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: web}}}, ",
		"required":  "required: true, match: {namespaceSelector: {matchLabels: {team: b}}, podSelector: {matchLabels: {app: web}}}, ",
		"suspended": "suspend: true, ",
		"elsewhere": "availableTo: {namespaceSelector: {matchLabels: {team: z}}}, ",
	} {
		text := fmt.Sprintf("{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: %s}, spec: {%sinject: {spec: {initContainers: [{name: %s, restartPolicy: Always, image: x}]}}}}", name, spec, name)
		template, _, err := templates.Compile([]byte(text), templates.Options{})
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, templates.Entry{Name: name, Template: template})
	}
	return templates.NewSet(entries)
}

// Whatever pod and namespace say, a decision by the metadata is the one for the whole pod.
func TestADecisionByTheMetadataIsTheOneForTheWholePod(t *testing.T) {
	p, set := NewPipeline(Config{ExcludedNamespaces: []string{"kube-system"}}), metadataSet(t)
	records := map[string]string{
		"none": "", "unreadable": "{", "hides the label": `{"templates":{"asked":"1"},"pod":{"metadata":{"labels":{"app":"0"}}}}`,
		"of a container": `{"templates":{"asked":"1"},"pod":{"spec":{"initContainers":{"$made":true,"name=asked":{"$added":true,"image":"0"}}}}}`,
	}
	values := []string{"-", "", "true", "false", "asked", "asked,default", "+asked", "-default", "+asked,-asked", "nope", "suspended", "elsewhere", "required", "matching", "Yes please"}
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
							got, templates := p.DecideByMetadata(r)
							if templates > 0 {
								left++
								continue
							}
							decided++
							r.Pod = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "x"}}}}
							want, err := p.Inject(t.Context(), r)
							if err != nil {
								t.Fatal(err)
							}
							if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Outcome{}, "Pod"), cmp.AllowUnexported(TemplateOutcome{})); diff != "" {
								t.Fatalf("pod %q, namespace %s says %q, team %q, app %q, record %s: by the metadata differs\n%s", pod, name, namespace, team, app, record, diff)
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
