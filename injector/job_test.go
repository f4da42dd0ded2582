package injector_test

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// A Job's pod ends when its ordinary containers have ended, and a native sidecar keeps none from it.
func TestAnOrdinaryContainerOfATemplateKeepsAJobFromFinishing(t *testing.T) {
	t.Parallel()
	of := func(spec string) *templates.Set {
		return templates.NewSet([]templates.Entry{{Name: "side", Template: templatestest.Compile(t, "{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side}, spec: {injectByDefault: true, inject: {spec: "+spec+"}}}")}})
	}
	const ordinary, native = "{containers: [{name: side, image: s}]}", "{initContainers: [{name: side, image: s, restartPolicy: Always}]}"
	for name, c := range map[string]struct {
		template, kind string
		warns          bool
	}{
		"an ordinary container":     {ordinary, "Job", true},
		"a native sidecar":          {native, "Job", false},
		"the pod's own is extended": {"{containers: [{name: work, tty: true}, {$each: App, stdin: true}]}", "Job", false},
		"another workload's":        {ordinary, "ReplicaSet", false},
	} {
		pod, err := injector.DecodePod([]byte(`{"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "` + c.kind + `", "name": "x", "controller": true}], "annotations": {"pillion.dev/inject": "true"}},
			"spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "w"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		pipeline := injector.NewPipeline(injector.Config{})
		for call := range 2 { // a warning must not depend on which call it is
			out, err := pipeline.Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop"}, Templates: of(c.template)})
			if err != nil || !out.Allowed {
				t.Fatal(err, out.Message)
			}
			pod = out.Pod
			text := strings.Join(out.Warnings, "\n")
			if strings.HasPrefix(text, string(reason.JobNeverFinishes)+": template side: the Job finishes only when the container side ends") != c.warns {
				t.Errorf("%s, call %d: %q", name, call, text)
			}
		}
	}
}
