package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// windowsPod is a pod for Windows, by its own field or by its node selector.
func windowsPod(name string, own bool, annotations map[string]string) *corev1.Pod {
	pod := newPod(name, annotations)
	if own {
		pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	} else {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"}
	}
	return pod
}

const forBoth = "\nos: [linux, windows]\ncontainerSecurity: Restricted\ninject: {spec: {initContainers: [{name: NAME, image: 'registry.example.com/NAME:1', restartPolicy: Always}]}}"

func TestAPodForWindowsIsAdmittedWithoutTheSidecarsForLinux(t *testing.T) {
	t.Parallel()
	linux, both := manifest{name: unique("penguin"), spec: sidecarSpec}, manifest{name: unique("both"), spec: forBoth}
	for _, m := range []manifest{linux, both} {
		m.apply(t)
		m.waitServed(t)
	}
	n := newNamespace(t, asking("fluent-bit,"+linux.name+","+both.name), nil)
	for name, own := range map[string]bool{"own": true, "selector": false} {
		if got := containerNames(n.mustCreate(t, windowsPod(name, own, nil))); got != both.name+" app" {
			t.Errorf("%s: containers %s, want those of %s and app", name, got, both.name)
		}
		w := n.warnings.take()
		for _, template := range []string{"fluent-bit", linux.name} {
			if !strings.Contains(w, "OtherSystem: without "+template+`: the pod is for "windows" (spec.`) {
				t.Errorf("%s: the warnings are %q, want one about %s", name, w, template)
			}
		}
	}
	if got := containerNames(n.mustCreate(t, newPod("linux", nil))); !strings.Contains(got, "fluent-bit") || !strings.Contains(got, linux.name) || !strings.Contains(got, both.name) {
		t.Errorf("a pod for Linux has the containers %s", got)
	}
	deployment := strings.Replace(workloadOf("Deployment", "web", "", "", ""), "spec: {containers", "spec: {os: {name: windows}, containers", 1)
	wantWarnings(t, n.applyDry(t, deployment), "pods of Deployment web: OtherSystem: without fluent-bit: ", "pods of Deployment web: OtherSystem: without "+linux.name+": ")
}

// A tenant gains nothing by saying that a pod is for Windows.
func TestAPodForWindowsIsRefusedWhereATemplateForLinuxIsRequired(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, sidecarSpec, enforced())
	for name, own := range map[string]bool{"own": true, "selector": false} {
		for _, annotations := range []map[string]string{nil, asking("false")} {
			_, err := n.create(t, windowsPod(name, own, annotations))
			m.checkRefusal(t, err, `: the pod is for "windows" (spec.`)
			if err != nil && !strings.Contains(err.Error(), "ask the cluster's admin for a template that serves this system or exempts it") {
				t.Error(err)
			}
		}
	}
	deployment := strings.Replace(workloadOf("Deployment", "web", "", "", ""), "spec: {containers", "spec: {os: {name: windows}, containers", 1)
	wantWarnings(t, n.applyDry(t, deployment), "pods of Deployment web are refused: template "+m.name+`: the pod is for "windows" (spec.os.name)`)
}

func TestASystemThatThereIsNotIsRefusedAtKubectlApply(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: "\nos: [Windows]" + sidecarSpec}
	if _, stderr, err := run(t, m.yaml(), "kubectl", "apply", "-f", "-"); err == nil || !strings.Contains(stderr, `spec.os[0]: Unsupported value: "Windows": supported values: "linux", "windows"`) {
		t.Errorf("kubectl apply says %q, %v", stderr, err)
	}
}
