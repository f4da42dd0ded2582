package predict_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/internal/cputime"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
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
	tmpl := templatestest.Compile(t, sidecar)
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

// A preview works on the pod of whoever may write a Deployment, in a namespace that has limits.
func TestAPodWhoseContainersAllBreakALimitIsJudgedSoon(t *testing.T) {
	tmpl := templatestest.Compile(t, sidecar)
	containers := func(n int) []any {
		all := make([]any, n)
		for i := range all {
			all[i] = map[string]any{"name": fmt.Sprintf("c%d", i), "image": "w:1", "resources": map[string]any{"requests": map[string]any{"cpu": "2"}, "limits": map[string]any{"cpu": "2"}}}
		}
		return all
	}
	const many = 2000
	before := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"containers": containers(many)}}
	after := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"containers": containers(many), "initContainers": []any{map[string]any{"name": "proxy", "image": "p:1", "restartPolicy": "Always"}}}}
	one := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	limits := predict.Namespace{
		LimitRanges: []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: one}}}}},
		Quotas:      []corev1.ResourceQuota{{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("1Gi")}}}},
	}
	began := cputime.Used()
	predict.Troubles(predict.Input{Before: before, After: after, Namespace: limits, Injected: []*templates.Template{tmpl}})
	if took := cputime.Used() - began; took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
}
