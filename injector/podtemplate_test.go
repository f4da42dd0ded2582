package injector

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// A controller may put items into another order, replace them and leave fields out. The pod
// template gets what the plan wants and none of that.
func TestAPodTemplateGetsThePlanOfItsPodAndNothingOfItsController(t *testing.T) {
	tmpl := templatestest.Compile(t, `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side}, spec: {injectByDefault: true, inject: {
		metadata: {$onConflict: Overwrite, labels: {hash: mine, saw: "${pod.metadata.?labels[?'hash'].orValue('none')}"}},
		spec: {volumes: [{name: side, emptyDir: {}}], containers: [{$each: App, env: [{name: A, value: b}]}]}}}}`)
	decode := func(text string) (v map[string]any) {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	written := decode(`{"metadata":{"name":"left out"},"spec":{"containers":[{"name":"app"}],"volumes":[{"name":"tmp"},{"name":"data","emptyDir":{}}]}}`)
	created := decode(`{"metadata":{"labels":{"hash":"h"}},"spec":{"containers":[{"name":"app","env":[{"name":"INDEX","value":"0"}]}],"hostname":"app-0","volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-app-0"}},{"name":"tmp"}]}}`)
	ns := templates.Namespace{Name: "shop", Annotations: map[string]string{"pillion.dev/inject": "true"}}
	out, err := NewPipeline(Config{}).Inject(t.Context(), Request{Operation: "CREATE", Pod: created, PodTemplate: written, Namespace: ns, Templates: templates.NewSet([]templates.Entry{{Name: "side", Template: tmpl}})})
	if err != nil || !out.Allowed {
		t.Fatalf("%v %s", err, out.Message)
	}
	spec, _ := json.Marshal(out.PodTemplate["spec"])
	if want := `{"containers":[{"env":[{"name":"A","value":"b"}],"name":"app"}],"volumes":[{"name":"tmp"},{"emptyDir":{},"name":"data"},{"emptyDir":{},"name":"side"}]}`; string(spec) != want {
		t.Errorf("the spec is\n%s\nwant\n%s", spec, want)
	}
	metadata := out.PodTemplate["metadata"].(map[string]any)
	if labels := metadata["labels"]; !reflect.DeepEqual(labels, map[string]any{"hash": "mine", "saw": "h", "pillion.dev/injected": "true", "side.pillion.dev/hash": tmpl.Hash()[:10]}) || metadata["name"] != "left out" {
		t.Errorf("the metadata are %v", metadata)
	}
	rec, err := record.Parse(out.PodTemplate)
	if err != nil {
		t.Fatal(err)
	}
	if base, warnings := rec.Uninject(out.PodTemplate); !reflect.DeepEqual(base, written) || len(warnings) > 0 {
		t.Errorf("uninjected it is %v %q, want %v", base, warnings, written)
	}
	if hostname, _ := out.Pod["spec"].(map[string]any)["hostname"].(string); hostname != "app-0" || len(out.PodTemplateOperations) == 0 {
		t.Errorf("the pod is %v, and the template's patch has %d operations", out.Pod, len(out.PodTemplateOperations))
	}
}
