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

func TestServerSideApplyOfTheSameObjectTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	name := newTemplate(t)
	n := newNamespace(t, asking(name), nil)
	manifests := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: %[1]s, labels: {app: alone}}
spec:
  containers:
  - {name: app, image: "nginx:1.29", env: [{name: A, value: "1"}], ports: [{containerPort: 80}], volumeMounts: [{name: own, mountPath: /own}]}
  initContainers: [{name: setup, image: "busybox:1"}]
  volumes: [{name: own, emptyDir: {}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: "nginx:1.29"}]}
`, n.name)
	apply := []string{"apply", "--server-side", "-f", "-"}
	must(t, manifests, "kubectl", apply...)
	n.waitPods(t, 2, "") // the controllers come to rest
	state := func() string {
		return must(t, "", "kubectl", "-n", n.name, "get", "pod/alone", "-o", "jsonpath={.metadata.labels}{.metadata.annotations}{.spec.initContainers}{.spec.containers}{.spec.volumes}") +
			must(t, "", "kubectl", "-n", n.name, "get", "deployment/web", "-o", "jsonpath= {.metadata.generation}")
	}
	before := state()
	must(t, manifests, "kubectl", apply...)
	if after := state(); after != before {
		t.Errorf("the pod and the Deployment's generation were\n%s\nand are after the same apply\n%s", before, after)
	}
	// kubectl diff reads the object and asks for a dry run one after the other. On a node the
	// pods become ready meanwhile, and the Deployment's status differs until they are.
	eventually(t, soon, func() error {
		out, _, err := run(t, manifests, "kubectl", "diff", "--server-side", "-f", "-")
		if err != nil || out != "" {
			return fmt.Errorf("kubectl diff: %v\n%s", err, out)
		}
		return nil
	})
	pod, err := client.CoreV1().Pods(n.name).Get(t.Context(), "alone", metav1.GetOptions{})
	if err != nil || containerNames(pod) != name+" setup app" {
		t.Errorf("containers %s, %v", containerNames(pod), err)
	}
}

func TestUninjectGivesBackWhatTheAPIServerWouldHaveMadeWithoutPillion(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("side"), spec: greedySpec}
	m.apply(t)
	n := newNamespace(t, nil, nil)
	for _, name := range []string{m.name, "default"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "of-" + name}}}
		var err error
		if name == "default" {
			_, err = client.CoreV1().ServiceAccounts(n.name).Update(t.Context(), account, metav1.UpdateOptions{})
		} else {
			_, err = client.CoreV1().ServiceAccounts(n.name).Create(t.Context(), account, metav1.CreateOptions{})
		}
		expectNoError(t, err)
	}
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

// remove deletes objects of the whole cluster after a test.
func remove(t *testing.T, objects ...string) {
	if _, err := ground.Run(context.Background(), shared, "kubectl", append([]string{"delete"}, objects...)...); err != nil {
		t.Error(err)
	}
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

// A pod with resources of its own is refused by the API server if its containers ask for
// more than that. It is admitted with the sidecar, and is as it was without it.
func TestASidecarGoesIntoAPodWithResourcesOfItsOwn(t *testing.T) {
	t.Parallel()
	const spec = `
podResources: %s
inject:
  spec:
    initContainers:
    - {name: NAME-init, image: "NAME:1", resources: {requests: {cpu: 20m}}}
    - {name: NAME, image: "NAME:1", restartPolicy: Always, resources: {requests: {cpu: 100m, memory: 10Mi}, limits: {cpu: 200m}}}
`
	adds, keeps := served(t, fmt.Sprintf(spec, "Add")).name, served(t, fmt.Sprintf(spec, "Keep")).name
	n := newNamespace(t, nil, nil)
	list := func(pairs ...string) corev1.ResourceList {
		if len(pairs) == 0 {
			return nil
		}
		return quantities(pairs...)
	}
	// From Kubernetes 1.37 on a pod that names only requests gets those of the containers, too.
	derived := list("cpu", "115m")
	if minor(t) >= 37 {
		derived = list("cpu", "115m", "memory", "10Mi")
	}
	for name, c := range map[string]struct {
		requests, limits, app, wantRequests, wantLimits corev1.ResourceList
		kept                                            string // in the API server's refusal, with podResources: Keep
	}{
		"requests":               {list("cpu", "15m"), nil, nil, derived, nil, `spec.resources.requests[cpu]: Invalid value: "15m"`},
		"both":                   {list("cpu", "50m", "memory", "1Gi"), list("cpu", "60m", "memory", "1Gi"), nil, list("cpu", "150m", "memory", "1034Mi"), list("cpu", "260m", "memory", "1034Mi"), `spec.resources.requests[cpu]: Invalid value: "50m"`},
		"limits":                 {nil, list("cpu", "2"), list("cpu", "500m"), list("cpu", "600m", "memory", "10Mi"), list("cpu", "2200m"), ""},
		"limits nobody requests": {nil, list("cpu", "2"), nil, list("cpu", "2100m", "memory", "10Mi"), list("cpu", "2200m"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := func(ask string) *corev1.Pod {
				p := newPod("web", asking(ask))
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}
				p.Spec.Containers[0].Resources.Requests = c.app
				return p
			}
			injected, err := n.preview(t, pod(adds))
			expectNoError(t, err)
			if got := injected.Spec.Resources; pretty(got.Requests) != pretty(c.wantRequests) || pretty(got.Limits) != pretty(c.wantLimits) {
				t.Errorf("the pod has %s\nwant requests %s and limits %s", pretty(got), pretty(c.wantRequests), pretty(c.wantLimits))
			}
			switch kept, err := n.preview(t, pod(keeps)); {
			case c.kept == "" && err != nil:
				t.Errorf("with podResources: Keep: %v", err)
			case c.kept == "" && pretty(kept.Spec.Resources.Limits) != pretty(c.limits):
				t.Errorf("with podResources: Keep the limits are %s", pretty(kept.Spec.Resources.Limits))
			case c.kept != "" && (err == nil || !strings.Contains(err.Error(), c.kept)):
				t.Errorf("with podResources: Keep: %v", err)
			}
		})
	}
}
