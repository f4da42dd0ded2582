package e2e

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What comes out of the examples is what an API server takes. Nothing asks Pillion here.
func TestTheAPIServerAcceptsThePodsOfTheExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(checkout.Path("examples", "*", "testdata", "*", "*", "want.yaml"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d pods, %v", len(files), err)
	}
	n := newNamespace(t, nil, nil)
	for _, file := range files {
		var pod corev1.Pod
		fromYAML(t, file, &pod)
		delete(pod.Annotations, injectAnnotation)
		pod.Namespace, pod.Spec.PriorityClassName = n.name, ""
		wantNoError(t, errorOf(n.preview(t, &pod)), file)
	}
}
