package e2e

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// recommends is what a VerticalPodAutoscaler's webhook does: it sets requests of each
// container, and scales limits that there are. It says nothing to a pod that has them.
func recommends(pod *corev1.Pod) []map[string]any {
	var operations []map[string]any
	for list, containers := range map[string][]corev1.Container{"containers": pod.Spec.Containers, "initContainers": pod.Spec.InitContainers} {
		for i, c := range containers {
			want := corev1.ResourceRequirements{Requests: quantities("cpu", "35m", "memory", "50Mi")}
			if !c.Resources.Limits.Memory().IsZero() {
				want.Limits = quantities("memory", "100Mi")
			}
			if pretty(c.Resources) != pretty(want) {
				operations = append(operations, map[string]any{"op": "add", "path": fmt.Sprintf("/spec/%s/%d/resources", list, i), "value": want})
			}
		}
	}
	return operations
}

// A webhook before Pillion sees the sidecar only if it is called again. What a required template
// allows of it is told above.
func TestAVerticalPodAutoscalerBesidePillion(t *testing.T) {
	t.Parallel()
	const never, ifNeeded = admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy
	for _, test := range []struct {
		why, prefix string
		again       admissionregistrationv1.ReinvocationPolicyType
		ofSidecar   string // the sidecar's memory request in the end
		calls       int    // of the other webhook for a pod
	}{
		{"before Pillion", "aa-vpa", never, "64Mi", 1},
		{"before Pillion and again", "aa-vpa", ifNeeded, "50Mi", 2},
		{"after Pillion", "zz-vpa", never, "50Mi", 1},
		{"after Pillion and again", "zz-vpa", ifNeeded, "50Mi", 2},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			name := newTemplate(t)
			newNamespace(t, asking(name), nil).besideVPA(t, name, test.prefix, test.again, test.ofSidecar, test.calls)
		})
	}
}

func (n *namespace) besideVPA(t *testing.T, name, prefix string, again admissionregistrationv1.ReinvocationPolicyType, ofSidecar string, wantCalls int) {
	t.Helper()
	called := otherWebhook(t, n, prefix, again, recommends)
	eventually(t, soon, func() error {
		before := called.Load()
		if _, err := n.preview(t, newPod("probe", nil)); called.Load() == before {
			return fmt.Errorf("the other webhook is not called yet: %v", err)
		}
		return nil
	})
	before := called.Load()
	web := newPod("web", nil)
	web.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
	pod, err := n.create(t, web)
	if got := int(called.Load() - before); got > wantCalls {
		t.Errorf("the other webhook is called %d times for a pod, want at most %d", got, wantCalls)
	}
	expectNoError(t, err)
	if app := sidecar(pod, "app").Resources; app.Requests.Memory().String() != "50Mi" || app.Limits.Memory().String() != "100Mi" {
		t.Errorf("the app has %s, want what the other webhook set", pretty(app))
	}
	s := sidecar(pod, name)
	if got := s.Resources.Requests.Memory().String(); got != ofSidecar {
		t.Errorf("the sidecar requests %s of memory, want %s", got, ofSidecar)
	}
	if ofSidecar == "64Mi" {
		return // in a copy the other webhook sees the sidecar
	}
	// Nothing flaps: a copy of the pod stays as it is.
	second := n.mustCreate(t, copyOf(pod))
	if got, want := pretty(second.Spec.InitContainers), pretty(pod.Spec.InitContainers); got != want {
		t.Errorf("a copy of the pod has\n%s\nwant\n%s", got, want)
	}
	if got, want := second.Annotations[statusAnnotation], pod.Annotations[statusAnnotation]; got != want {
		t.Errorf("its status is %s, want %s", got, want)
	}
}
