package predict_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/templates"
)

const sidecar = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: proxy}
spec:
  parameters: [{name: cpu, type: quantity, default: 10m}]
  inject: {spec: {initContainers: [{name: proxy, image: 'p:1', restartPolicy: Always, resources: {requests: {cpu: "${params.cpu}"}}}]}}
`

func pod(t *testing.T, text string) map[string]any {
	t.Helper()
	var p map[string]any
	if err := yaml.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// The API server refuses a pod whose containers together ask for more than spec.resources.
func TestASumAboveThePodsOwnResourcesNamesTheParameter(t *testing.T) {
	tmpl, _, err := templates.Compile([]byte(sidecar), templates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const app = `containers: [{name: web, image: 'w:1', resources: {requests: {cpu: 10m}}}]`
	const proxy = `, initContainers: [{name: proxy, image: 'p:1', restartPolicy: Always, resources: {requests: {cpu: 10m}}}]`
	for own, want := range map[string]string{
		"15m": "the API server refuses the pod: spec.resources.requests[cpu]: Invalid value: \"15m\": must be greater than or equal to aggregate container requests of 20m; without the sidecars the pod would pass. It comes from the template proxy: the parameter proxy.pillion.dev/cpu (on the namespace or on the pod) changes it",
		"20m": "",
		"5m":  "", // refused without the sidecar, too
	} {
		spec := "spec: {resources: {requests: {cpu: " + own + "}}, " + app
		var got []string
		for _, trouble := range predict.Troubles(predict.Input{Before: pod(t, spec+"}"), After: pod(t, spec+proxy+"}"), Injected: []*templates.Template{tmpl}}) {
			if !trouble.Refused || trouble.AlsoWithout || trouble.Source != predict.API {
				t.Errorf("%s: %+v", own, trouble)
			}
			got = append(got, trouble.String())
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: %q, want %q", own, got, want)
		}
	}
}
