package e2e

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// copyOf is a pod that somebody wrote after a stored one: with its status and its spec, the
// sidecar at their disposal.
func copyOf(stored *corev1.Pod) *corev1.Pod {
	pod := newPod("copy", map[string]string{statusAnnotation: stored.Annotations[statusAnnotation]})
	pod.Spec = *stored.Spec.DeepCopy()
	pod.Spec.NodeName = ""
	return pod
}

// checkRefusal fails the test unless err refuses a pod and its message says this of the
// template; NAME stands for the template's name. If says is empty, it wants no error.
func (m manifest) checkRefusal(t *testing.T, err error, says string) {
	t.Helper()
	if says != "" {
		err = forbiddenWith(err, strings.ReplaceAll("template NAME"+says, "NAME", m.name))
	}
	wantNoError(t, err)
}

// What a tenant may do to a sidecar is listed in injector/testdata/required/hostile. Here are what an API
// server completes, and what it says.
func TestASidecarThatATenantDeclaresIsAsTheRequiredTemplateRendersIt(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, strictSpec, enforced())
	stored := n.mustCreate(t, newPod("good", nil))
	if s := sidecar(stored, m.name); len(s.VolumeMounts) != 2 || s.TerminationMessagePath == "" || s.Resources.Requests.Cpu().IsZero() {
		t.Fatalf("the API server added nothing to the sidecar, so that this test shows less: %s", pretty(s))
	}
	volume := func(pod *corev1.Pod, name string) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	const at = ": spec.initContainers[name=NAME]."
	for why, test := range map[string]struct {
		change func(pod *corev1.Pod, c *corev1.Container)
		says   string // nothing for a pod that passes
	}{
		"nothing":           {func(*corev1.Pod, *corev1.Container) {}, ""},
		"an accepted image": {func(_ *corev1.Pod, c *corev1.Container) { c.Image = "mirror.example.com/x:2" }, ""},
		"another image": {func(_ *corev1.Pod, c *corev1.Container) { c.Image = "evil:1" },
			at + `image is "evil:1"; must be "registry.example.com/NAME:1", or an image that the template's spec.verify.images allows`},
		"a mount over the program": {func(pod *corev1.Pod, c *corev1.Container) {
			volume(pod, "own")
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "own", MountPath: "/usr/bin"})
		}, at + "volumeMounts[mountPath=/usr/bin] is present, but the template does not render it"},
		"another volume where the token is": {func(pod *corev1.Pod, c *corev1.Container) {
			volume(pod, "own")
			for i := range c.VolumeMounts {
				if c.VolumeMounts[i].MountPath != "/data" {
					c.VolumeMounts[i].Name = "own"
				}
			}
		}, at + "volumeMounts[mountPath=/var/run/secrets/kubernetes.io/serviceaccount] is present, but the template does not render it"},
		"less CPU asked for": {func(_ *corev1.Pod, c *corev1.Container) { c.Resources.Requests["cpu"] = resource.MustParse("1m") },
			at + `resources is {"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"1m","memory":"64Mi"}…; must be {"limits":{"cpu":"200m","memory":"64Mi"}}`},
		"behind the pod's own": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.InitContainers = append([]corev1.Container{{Name: "own", Image: "own:1"}}, pod.Spec.InitContainers...)
		}, ": spec.initContainers[name=NAME] must come first, before own"},
	} {
		t.Run(why, func(t *testing.T) {
			pod := copyOf(stored)
			test.change(pod, sidecar(pod, m.name))
			_, err := n.preview(t, pod)
			m.checkRefusal(t, err, test.says)
			// The record changes nothing.
			delete(pod.Annotations, statusAnnotation)
			_, err = n.preview(t, pod)
			m.checkRefusal(t, err, test.says)
		})
	}
}

func TestARunningSidecarStaysAsItIs(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, strictSpec, nil)
	pod := n.mustCreate(t, newPod("web", nil))
	var cases []struct {
		What, Says   string
		Subresources []string
		Patch        map[string]any
	}
	fromYAML(t, "testdata/running-sidecar.yaml", &cases)
	for _, c := range cases {
		t.Run(c.What, func(t *testing.T) {
			data, err := json.Marshal(c.Patch)
			expectNoError(t, err)
			data = bytes.ReplaceAll(data, []byte("NAME"), []byte(m.name))
			_, err = n.client.CoreV1().Pods(n.name).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, c.Subresources...)
			m.checkRefusal(t, err, c.Says)
		})
	}
}
