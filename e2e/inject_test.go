package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/e2e/ground"
)

func TestAnAnnotatedNamespaceGivesItsPodsTheLibrarysSidecar(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, nil)
	must(t, "", "kubectl", "annotate", "namespace", n.name, injectAnnotation+"=fluent-bit")
	injects(t, n, "fluent-bit") // the annotation has to reach Pillion
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
