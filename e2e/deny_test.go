package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestARefusedPodsMessageCanBeActedOn(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	tests := []struct {
		why         string
		annotations map[string]string
		want        []string // in the message
	}{
		{"an empty list", asking(""), []string{injectAnnotation, "BadAnnotation", "pillion explain"}},
		{"a mix of lists", asking(name + ",-" + name), []string{injectAnnotation, "BadAnnotation"}},
		{"no such template", asking(name + "x"), []string{name + "x", "UnknownTemplate"}},
		{"a value outside of the enum", map[string]string{name + ".pillion.dev/log-level": "loud"}, []string{name + ".pillion.dev/log-level", "loud", "error", "info", "debug", "BadParameter"}},
		{"a misspelt parameter", map[string]string{name + ".pillion.dev/log-levle": "debug"}, []string{name + ".pillion.dev/log-levle", "did you mean log-level?", "pillion params " + name, "BadParameter"}},
		{"a quantity over the maximum", map[string]string{name + ".pillion.dev/memory": "1Gi"}, []string{name + ".pillion.dev/memory", "1Gi", "128Mi", "BadParameter"}},
		{"a value that tries to be YAML", map[string]string{name + ".pillion.dev/log-level": "info\"}\n- {name: evil"}, []string{name + ".pillion.dev/log-level", "BadParameter"}},
	}
	for _, labels := range []map[string]string{nil, enforced()} {
		n := newNamespace(t, asking(name), labels)
		for i, test := range tests {
			t.Run(fmt.Sprintf("%s, enforced=%t", test.why, labels != nil), func(t *testing.T) {
				_, err := n.create(t, newPod(fmt.Sprintf("refused-%d", i), test.annotations))
				if !apierrors.IsForbidden(err) {
					t.Fatalf("the error is %v, want the pod forbidden", err)
				}
				for _, text := range test.want {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("the message lacks %q:\n%v", text, err)
					}
				}
			})
		}
	}
}

func TestAPodThatConflictsIsRefusedWithPathAndBothValues(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	pod := newPod("clash", nil)
	pod.Spec.Volumes = []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}}}}
	_, err := n.create(t, pod)
	if !apierrors.IsForbidden(err) {
		t.Fatalf("the error is %v, want the pod forbidden", err)
	}
	for _, text := range []string{name, "volumes", "Conflict"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the message lacks %q:\n%v", text, err)
		}
	}
}

func TestAControllersRefusedPodsAreAnEventOnTheController(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	must(t, fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: refused}
spec:
  template:
    metadata: {annotations: {%s.pillion.dev/log-level: loud}}
    spec: {restartPolicy: Never, containers: [{name: app, image: busybox}]}
`, name), "kubectl", "-n", n.name, "apply", "-f", "-")
	eventually(t, soon, func() error {
		events, err := client.CoreV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.ReportingController == "pillion" && e.Reason == "BadParameter" && e.InvolvedObject.Kind == "Job" && e.InvolvedObject.Name == "refused" {
				return nil
			}
		}
		return fmt.Errorf("no event of Pillion on the Job:\n%s", pretty(events.Items))
	})
}

func TestADryRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	bad := map[string]string{name + ".pillion.dev/log-level": "loud"}
	events := func() int {
		list, err := client.CoreV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	for range 5 {
		if _, err := n.preview(t, newPod("dry", bad)); !apierrors.IsForbidden(err) {
			t.Fatalf("the error is %v, want the pod forbidden", err)
		}
	}
	if pod, err := n.preview(t, newPod("dry", nil)); err != nil || containerNames(pod) != name+" app" {
		t.Fatalf("a good pod by dry run: %v", err)
	}
	// A refusal that is no dry run shows when the events of the dry runs would be there.
	if _, err := n.create(t, newPod("wet", bad)); !apierrors.IsForbidden(err) {
		t.Fatalf("the error is %v, want the pod forbidden", err)
	}
	eventually(t, soon, func() error {
		if events() == 0 {
			return fmt.Errorf("no event of the refusal that is no dry run")
		}
		return nil
	})
	list, err := client.CoreV1().Events(n.name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Count > 1 || strings.Contains(e.Message, "dry") {
			t.Errorf("an event counts dry runs:\n%s", pretty(e))
		}
	}
	if len(list.Items) != 1 {
		t.Errorf("%d events, want one:\n%s", len(list.Items), pretty(list.Items))
	}
	pods, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 0 {
		t.Errorf("%d pods, error %v, want none", len(pods.Items), err)
	}
}
