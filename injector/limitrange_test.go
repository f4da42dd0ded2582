package injector

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// LimitRanger runs again between two calls, sets the resources of the new sidecar, and
// writes its annotation anew: the annotation then says nothing of the app's container.
func TestASecondCallKnowsWhatLimitRangerSetBeforeTheFirst(t *testing.T) {
	set := templatestest.Set(t, `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: quota}
spec:
  inject:
    spec:
      initContainers: [{name: quota, image: "quota:1", restartPolicy: Always}]
      containers: [{$each: App, resources: {requests: {cpu: 5m}}}]
`)
	const first, second = "LimitRanger plugin set: cpu request for container app", "LimitRanger plugin set: cpu request for init container quota"
	pod := podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","annotations":{"kubernetes.io/limit-ranger":"`+first+`"}},
		"spec":{"containers":[{"name":"app","image":"app:1","resources":{"requests":{"cpu":"50m"}}}]}}`)
	inject := func(pod map[string]any) Outcome {
		out := injectIn(t, templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "quota"}}, set, pod)
		if !out.Allowed {
			t.Fatal(out.Message)
		}
		return out
	}
	once := inject(pod)
	if said := stringMap(once.Pod["metadata"].(map[string]any)["annotations"])["kubernetes.io/limit-ranger"]; said != first {
		t.Errorf("LimitRanger's annotation is %q now", said)
	}
	between := patched(t, once.Pod, `[{"op":"replace","path":"/metadata/annotations/kubernetes.io~1limit-ranger","value":"`+second+`"},
		{"op":"add","path":"/spec/initContainers/0/resources","value":{"requests":{"cpu":"50m"}}}]`)
	if twice := inject(between); len(twice.Operations) > 0 || strings.Join(twice.Warnings, "\n") != strings.Join(once.Warnings, "\n") {
		text := patch.Marshal(twice.Operations)
		t.Errorf("the second call edits %s and warns of %q; the first warned of %q", text, twice.Warnings, once.Warnings)
	}
	rec, err := record.Parse(between)
	if err != nil {
		t.Fatal(err)
	}
	if back, warnings := rec.Uninject(between); len(warnings) > 0 || !reflect.DeepEqual(back, pod) {
		t.Errorf("uninjected, with the warnings %q: %v; want %v", warnings, back, pod)
	}
}
