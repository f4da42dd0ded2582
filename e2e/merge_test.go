package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pillion-dev/pillion/e2e/ground"
)

func probe(path string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}}}
}

func TestUninjectGivesBackWhatTheAPIServerWouldHaveMadeWithoutPillion(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: greedySpec}
	m.apply(t)
	n := newNamespace(t, nil, nil)
	account := func(name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "of-" + name}}}
	}
	create(t, client.CoreV1().ServiceAccounts(n.name), account(m.name))
	expectNoError(t, errorOf(client.CoreV1().ServiceAccounts(n.name).Update(t.Context(), account("default"), metav1.UpdateOptions{})))
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Value: 1000}
	temporary(t, client.SchedulingV1().PriorityClasses(), class)
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: quantities("memory", "256Mi"), DefaultRequest: quantities("memory", "128Mi", "cpu", "50m"),
	}}}}
	create(t, client.CoreV1().LimitRanges(n.name), limits)
	pod := func(annotations map[string]string) *corev1.Pod {
		p := newPod("web", annotations)
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		p.Spec.Containers[0].LivenessProbe = probe("/")
		p.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "busybox"}}
		return p
	}
	var injected, plain *corev1.Pod
	eventually(t, soon, func() (err error) { // the template and the limits have to be known
		if injected, err = n.preview(t, pod(asking(m.name))); err != nil {
			return err
		}
		if plain, err = n.preview(t, pod(map[string]string{injectAnnotation: "false"})); err != nil {
			return err
		}
		if sidecar(injected, m.name) == nil || plain.Spec.Containers[0].Resources.Requests.Cpu().String() != "50m" {
			err = fmt.Errorf("containers %s, resources %v", containerNames(injected), plain.Spec.Containers[0].Resources)
		}
		return err
	})
	if w := n.warnings.take(); strings.Contains(w, "stays") {
		t.Errorf("what nobody set does not give way: %s", w)
	}
	if got := sidecar(injected, "app").Resources.Requests.Cpu().String(); got != "5m" || injected.Spec.ServiceAccountName != m.name || *injected.Spec.Priority != 1000 || len(injected.Spec.Tolerations) != 1 {
		t.Errorf("requests %s, account %s, priority %d, tolerations %v", got, injected.Spec.ServiceAccountName, *injected.Spec.Priority, injected.Spec.Tolerations)
	}
	back := &corev1.Pod{}
	out, warned, err := run(t, pretty(withKind(injected)), "pillion", "uninject", "-f", "-", "-o", "json")
	if err != nil || warned != "" {
		t.Fatalf("%v\n%s", err, warned)
	}
	expectNoError(t, json.Unmarshal([]byte(out), back))
	if got, want := specOf(back), specOf(plain); got != want {
		t.Errorf("uninjected\n%s\nwant\n%s", got, want)
	}
}

// remove deletes objects of the whole cluster, also after a test.
func remove(t *testing.T, objects ...string) {
	t.Helper()
	wantNoError(t, errorOf(ground.Run(context.Background(), shared, "kubectl", append([]string{"delete"}, objects...)...)))
}

// removedAtTheEnd is remove when the test ends.
func removedAtTheEnd(t *testing.T, objects ...string) {
	t.Helper()
	t.Cleanup(func() { remove(t, objects...) })
}

func withKind(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	return pod
}

func quantities(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// specOf is a pod's labels and spec, with the random name of the token's volume
// made one.
func specOf(pod *corev1.Pod) string {
	text := pretty(map[string]any{"labels": pod.Labels, "spec": pod.Spec})
	for _, v := range pod.Spec.Volumes {
		if strings.HasPrefix(v.Name, "kube-api-access-") {
			text = strings.ReplaceAll(text, v.Name, "kube-api-access")
		}
	}
	return text
}
