package e2e

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAPodsOwnValuesDoNotTakeThePlaceOfWhatIsRequired(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, strictSpec, enforced())
	rendered := sidecar(n.mustCreate(t, newPod("good", nil)), m.name)
	for why, test := range map[string]struct {
		change func(pod *corev1.Pod, app *corev1.Container)
		says   string
	}{
		"a volume at the template's path": {func(pod *corev1.Pod, app *corev1.Container) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			app.VolumeMounts = []corev1.VolumeMount{{Name: "own", MountPath: "/data"}}
		}, ` conflicts at spec.containers[name=app].volumeMounts[mountPath=/data]: the pod has {"mountPath":"/data","name":"own"}, the template wants {"mountPath":"/data","name":"NAME"} (Conflict;`},
		"a volume under the name of the token's": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, ": spec.initContainers[name=NAME].volumeMounts[mountPath=/var/run/secrets/kubernetes.io/serviceaccount] is there, and the template does not render it"},
		"a file in a volume under the name of the token's": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-a", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}}},
			}}}}}
		}, ": spec.initContainers[name=NAME].volumeMounts[mountPath=/var/run/secrets/kubernetes.io/serviceaccount] is there, and the template does not render it"},
		"a volume under that name that nobody mounts": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.AutomountServiceAccountToken = new(false)
			pod.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, ""},
		"the sidecar behind the pod's own container": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.InitContainers = []corev1.Container{{Name: "own", Image: "own:1"}, *rendered.DeepCopy()}
			pod.Spec.InitContainers[1].VolumeMounts = rendered.VolumeMounts[:1]
		}, ": spec.initContainers[name=NAME] stands behind own, and the template wants it first (RequiredMissing;"},
	} {
		t.Run(why, func(t *testing.T) {
			pod := newPod("own", nil)
			test.change(pod, &pod.Spec.Containers[0])
			_, err := n.preview(t, pod)
			m.checkRefusal(t, err, test.says)
		})
	}
}

// Each of these webhooks changes the sidecar after Pillion, as products do. Resources and variables
// are told in TestAPolicyThatChangesASidecarIsKeptOrRefusedAsTheTemplateSays.
func TestOtherWebhooksChangeOfARequiredSidecarWhatTheTemplateAllows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, allow string
		change     func(path string, c *corev1.Container) []map[string]any
		says       string
	}{
		{"probes, as a mesh rewrites them", "probes: true", func(path string, c *corev1.Container) []map[string]any {
			return []map[string]any{{"op": "add", "path": path + "/readinessProbe/httpGet", "value": map[string]any{"path": "/app-health/" + c.Name + "/readyz", "port": 15020, "scheme": "HTTP"}}}
		}, ": spec.initContainers[name=NAME].readinessProbe is "},
		{"a mount, as one for certificates adds it", "volumeMounts: [/etc/ssl/*]", func(path string, c *corev1.Container) []map[string]any {
			if count(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "certificates" }) > 0 {
				return nil
			}
			return []map[string]any{
				{"op": "add", "path": "/spec/volumes/-", "value": map[string]any{"name": "certificates", "configMap": map[string]any{"name": "certificates"}}},
				{"op": "add", "path": path + "/volumeMounts/-", "value": map[string]any{"name": "certificates", "mountPath": "/etc/ssl/certs"}},
			}
		}, ": spec.initContainers[name=NAME].volumeMounts[mountPath=/etc/ssl/certs] is there, and the template does not render it"},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			for verify, says := range map[string]string{"": test.says, "\nverify: {allow: {" + test.allow + "}}": ""} {
				m, n := newRequiredBy(t, verify+strictInject, enforced())
				calls := otherWebhook(t, n, func(pod *corev1.Pod) []map[string]any {
					for i, c := range pod.Spec.InitContainers {
						if c.Name == m.name {
							return test.change(fmt.Sprint("/spec/initContainers/", i), &c)
						}
					}
					return nil
				})
				eventually(t, soon, func() error {
					_, err := n.preview(t, newPod("probe", nil))
					if calls.Load() == 0 {
						return fmt.Errorf("the other webhook is not called yet: %v", err)
					}
					return nil
				})
				_, err := n.preview(t, newPod("web", nil))
				m.checkRefusal(t, err, says)
				if says != "" && (err == nil || !strings.Contains(err.Error(), sinceSays)) {
					t.Errorf("the refusal does not say that another webhook did it: %v", err)
				}
			}
		})
	}
}

// The other webhook is called once more because Pillion put the sidecar back, and then it is
// the last one.
func TestNoAnnotationOfAnotherWebhookSwitchesTheVerificationOff(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, strictSpec, enforced())
	calls := otherWebhookCalledAgain(t, n, "zz-other", admissionregistrationv1.IfNeededReinvocationPolicy, func(pod *corev1.Pod) []map[string]any {
		switch {
		case pod.Labels["evil"] == "":
			return nil
		case pod.Labels["evil"] == "first":
			return []map[string]any{{"op": "remove", "path": "/spec/initContainers"}, {"op": "replace", "path": "/metadata/labels/evil", "value": "second"}}
		}
		return []map[string]any{
			{"op": "replace", "path": "/spec/initContainers/0/image", "value": "evil:1"},
			{"op": "add", "path": "/metadata/annotations/pillion.dev~1inject", "value": "!!"},
		}
	})
	eventually(t, soon, func() error {
		_, err := n.preview(t, newPod("probe", nil))
		if calls.Load() == 0 {
			return fmt.Errorf("the other webhook is not called yet: %v", err)
		}
		return nil
	})
	pod := newPod("web", nil)
	pod.Labels = map[string]string{"evil": "first"}
	got, err := n.preview(t, pod)
	if err == nil {
		t.Logf("admitted: %s %s", got.Annotations["pillion.dev/inject"], pretty(got.Spec.InitContainers))
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template "+m.name) || !strings.Contains(err.Error(), "evil:1") {
		t.Errorf("the answer is %v; want it forbidden for the image", err)
	}
	t.Log(err)
}
