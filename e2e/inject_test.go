package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

func TestAnAnnotatedNamespaceGivesItsPodsTheLibrarysSidecar(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	must(t, "", "kubectl", "annotate", "namespace", n.name, injectAnnotation+"=fluent-bit")
	eventually(t, soon, func() error { // the annotation has to reach Pillion
		pod, err := n.preview(t, newPod("web", nil))
		if err == nil && sidecar(pod, "fluent-bit") == nil {
			err = fmt.Errorf("containers %s", containerNames(pod))
		}
		return err
	})
	pod := n.mustCreate(t, newPod("web", nil))
	if c := sidecar(pod, "fluent-bit"); c == nil || c.Image == "" {
		t.Errorf("the pod has no sidecar with an image:\n%s", pretty(pod.Spec))
	}
	if !strings.Contains(pod.Annotations[statusAnnotation], "fluent-bit") {
		t.Errorf("the status annotation is %q, want one that names fluent-bit", pod.Annotations[statusAnnotation])
	}
	if w := n.warnings.take(); w != "" {
		t.Errorf("an ordinary injection gives the warnings\n%s", w)
	}
}

func TestParametersComeFromTheTemplateTheNamespaceAndThePodInThisOrder(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	key := name + ".pillion.dev/log-level"
	plain := newNamespace(t, asking(name), nil)
	set := newNamespace(t, map[string]string{injectAnnotation: name, key: "error"}, nil)
	tests := []struct {
		why  string
		n    *namespace
		pod  *corev1.Pod
		want string
	}{
		{"nobody sets it", plain, newPod("a", nil), "info"},
		{"the namespace sets it", set, newPod("b", nil), "error"},
		{"both set it", set, newPod("c", map[string]string{key: "debug"}), "debug"},
	}
	for _, test := range tests {
		pod := test.n.mustCreate(t, test.pod)
		if got := environment(sidecar(pod, name), "LOG_LEVEL"); got != test.want {
			t.Errorf("%s: LOG_LEVEL=%s, want %s", test.why, got, test.want)
		}
	}
}

// A pod that nothing asks about stays as it is, and so does one that opts out.
func TestAPodWithoutATemplateIsNotChanged(t *testing.T) {
	t.Parallel()
	for n, pod := range map[*namespace]*corev1.Pod{
		newNamespace(t, nil, nil):                  newPod("plain", nil),
		newNamespace(t, asking("fluent-bit"), nil): newPod("alone", asking("false")),
	} {
		stored := n.mustCreate(t, pod)
		if _, ok := stored.Annotations[statusAnnotation]; ok || containerNames(stored) != "app" || len(stored.Annotations) != len(pod.Annotations) {
			t.Errorf("the pod %s has the containers %s and the annotations %v, want only app and %v", pod.Name, containerNames(stored), stored.Annotations, pod.Annotations)
		}
	}
}

func TestTheSidecarGetsTheServiceAccountsToken(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	pod := n.mustCreate(t, newPod("web", nil))
	for _, c := range []string{name, "app"} {
		mounts := map[string]int{}
		for _, m := range sidecar(pod, c).VolumeMounts {
			mounts[m.MountPath]++
		}
		if mounts["/var/run/secrets/kubernetes.io/serviceaccount"] != 1 || mounts["/data"] != 1 {
			t.Errorf("container %s mounts %v, want the token and /data once each", c, mounts)
		}
	}
	if len(pod.Spec.Volumes) != 2 {
		t.Errorf("volumes:\n%s\nwant the token's and the template's", pretty(pod.Spec.Volumes))
	}
}

func TestADeploymentsPodsAreInjected(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	labels := map[string]string{"app": "web"}
	replicas := int32(2)
	pod := newPod("", map[string]string{name + ".pillion.dev/log-level": "debug"})
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	}
	if _, err := client.AppsV1().Deployments(n.name).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, func() error {
		pods, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) != 2 {
			err = fmt.Errorf("%d pods, want 2", len(pods.Items))
		}
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if got := containerNames(&pod); got != name+" app" {
				t.Errorf("pod %s has the containers %s, want %s app", pod.Name, got, name)
			} else if level := environment(sidecar(&pod, name), "LOG_LEVEL"); level != "debug" {
				t.Errorf("pod %s has LOG_LEVEL %q, want debug from the Deployment's pod template", pod.Name, level)
			}
		}
		return nil
	})
}

func TestExcludedNamespacesAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kube-system", ground.Namespace} {
		n := &namespace{name: name, client: client}
		pod, err := n.preview(t, newPod(unique("asks"), asking("fluent-bit")))
		if err != nil {
			t.Errorf("a pod in %s: %v", name, err)
		} else if got := containerNames(pod); got != "app" {
			t.Errorf("a pod in %s has the containers %s, want only app", name, got)
		}
	}
}

func TestARefusedPodsMessageCanBeActedOn(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	for _, labels := range []map[string]string{nil, enforced()} {
		n := newNamespace(t, asking(name), labels)
		_, err := n.create(t, newPod("refused", map[string]string{name + ".pillion.dev/log-levle": "debug"}))
		if !apierrors.IsForbidden(err) {
			t.Fatalf("the error is %v, want the pod forbidden", err)
		}
		for _, text := range []string{name + ".pillion.dev/log-levle", "did you mean log-level?", "pillion params " + name, "BadParameter"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("the message lacks %q:\n%v", text, err)
			}
		}
	}
}

func TestWarningsReachWhoeverCreatesThePod(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	copied := newPod("copied", nil)
	copied.Labels = map[string]string{"vault.pillion.dev/hash": "0123456789"}
	pod := n.mustCreate(t, copied)
	if w := n.warnings.take(); !strings.Contains(w, "UntrueLabel") || !strings.Contains(w, "vault.pillion.dev/hash") {
		t.Errorf("a label that says what is not so gives the warnings %q", w)
	}
	if found := must(t, "", "kubectl", "-n", n.name, "get", "pods", "-l", "pillion.dev/injected", "-L", name+".pillion.dev/hash", "--no-headers"); !strings.HasPrefix(found, "copied ") ||
		!strings.HasSuffix(strings.TrimSpace(found), " "+pod.Labels[name+".pillion.dev/hash"]) || len(pod.Labels[name+".pillion.dev/hash"]) != 10 {
		t.Errorf("kubectl finds the injected pods\n%s\nwant the one with the labels %v", found, pod.Labels)
	}
	other := unique("side")
	manifest{name: other, spec: "\nsuspend: true" + sidecarSpec}.apply(t)
	eventually(t, soon, func() error {
		pod, err := n.preview(t, newPod("both", asking("+"+other)))
		w := n.warnings.take()
		if err == nil && (!strings.Contains(w, other) || !strings.Contains(w, "Suspended")) {
			err = fmt.Errorf("a suspended template gives the warnings %q, want its name and the reason", w)
		}
		if err == nil && containerNames(pod) != name+" app" {
			err = fmt.Errorf("containers %s", containerNames(pod))
		}
		return err
	})
}

func TestAuditEventsSayWhatWasInjected(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), open())
	n.mustCreate(t, newPod("audited", nil))
	eventually(t, soon, func() error {
		for _, e := range auditEvents(t, n.name) {
			if e.Annotations["requested.pillion.dev/decision"] == "Injected" && strings.HasPrefix(e.Annotations["requested.pillion.dev/templates"], name+"=") {
				return nil
			}
		}
		return fmt.Errorf("no audit event with the decision and the template:\n%s", pretty(auditEvents(t, n.name)))
	})
}
