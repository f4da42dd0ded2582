package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/e2e/ground"
)

// The tests of this file need pods that run. TestMain leaves out every test whose name
// begins with onANode where they do not.
const onANode = "TestOnANode"

// running bounds how long pods take to start or to end, on a machine that may be busy.
const running = 90 * time.Second

// standInImage is one of the images that the node has: see e2e/registry.
const standInImage = "shop.example.com/web:1"

// newRunningPod is newPod with a container that runs until it is asked to end.
func newRunningPod(name string, annotations map[string]string) *corev1.Pod {
	pod := newPod(name, annotations)
	pod.Spec.Containers[0].Image = standInImage
	return pod
}

// waitFor waits until the pod is what want asks for.
func (n *namespace) waitFor(t *testing.T, name string, want func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, running, func() (err error) {
		if pod, err = client.CoreV1().Pods(n.name).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if err = want(pod); err != nil {
			return fmt.Errorf("pod %s: %w\n%s", name, err, pretty(pod.Status))
		}
		return nil
	})
	return pod
}

// ready is nil for a pod whose containers, sidecars among them, are all ready.
func ready(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("it is not ready")
}

// phase is nil for a pod in that phase.
func phase(want corev1.PodPhase) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if pod.Status.Phase != want {
			return fmt.Errorf("its phase is %s, want %s", pod.Status.Phase, want)
		}
		return nil
	}
}

// statusOf is that of a container of any kind.
func statusOf(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

func TestOnANodeTheSidecarRunsBeforeTheAppWhichReachesIt(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, asking("fluent-bit"), nil)
	pod := newRunningPod("web", nil)
	pod.Spec.Containers[0].Args = []string{"get", "http://127.0.0.1:2020/api/v1/health"}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	n.mustCreate(t, pod)

	got := n.waitFor(t, "web", phase(corev1.PodSucceeded))
	sidecar, app := statusOf(got, "fluent-bit"), statusOf(got, "app")
	if sidecar.State.Terminated == nil || app.State.Terminated == nil {
		t.Fatalf("a pod that has ended has containers that have not: %s", pretty(got.Status))
	}
	if sidecar.State.Terminated.StartedAt.After(app.State.Terminated.StartedAt.Time) {
		t.Errorf("the sidecar started at %s, after the app at %s", sidecar.State.Terminated.StartedAt, app.State.Terminated.StartedAt)
	}
	wantTexts(t, "the app's log", n.logs(t, "app"), "fluent-bit answers /api/v1/health")
	wantTexts(t, "the sidecar's log", n.logs(t, "fluent-bit"), "standing in for fluent-bit", "asked to end")
}

// logs returns the log of a container of the pod web.
func (n *namespace) logs(t *testing.T, container string) string {
	t.Helper()
	return must(t, "", "kubectl", "-n", n.name, "logs", "web", "-c", container)
}

// Every byte of a file arrives: the last line's end, tabs, and control characters.
func TestOnANodeASidecarReadsItsRenderedFile(t *testing.T) {
	t.Parallel()
	name := served(t, filesSpec).name
	n := newNamespace(t, asking(name), nil)
	n.mustCreate(t, newRunningPod("web", map[string]string{name + ".pillion.dev/level": "debug"}))
	n.waitFor(t, "web", ready)
	wantTexts(t, "the sidecar's log", n.logs(t, name), `/etc/side/side.conf has "level debug\tof shop\r\n$(X) ${HOME}\x01 \"ü\"\n\n"`)
}

func TestOnANodeThePodsOfWorkloadsRunWithTheirSidecarAndJobsEnd(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		container string
		command   []string // of kubectl
		want      func(*corev1.Pod) error
	}{
		"Deployment": {"", []string{"rollout", "status", "deployment/web", "--timeout=90s"}, ready},
		"DaemonSet":  {"", []string{"rollout", "status", "daemonset/web", "--timeout=90s"}, ready},
		"Job":        {`, args: [get, "http://127.0.0.1:2020/"]`, []string{"wait", "--for=condition=Complete", "job/web", "--timeout=90s"}, phase(corev1.PodSucceeded)},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t, asking("fluent-bit"), enforced())
			must(t, strings.Replace(workloadOf(kind, "web", "", "", c.container), "image: nginx", "image: '"+standInImage+"'", 1), "kubectl", "-n", n.name, "apply", "-f", "-")
			must(t, "", "kubectl", append([]string{"-n", n.name}, c.command...)...)
			pod := n.waitPods(t, 1, "app=web")[0]
			if got := containerNames(&pod); got != "fluent-bit app" {
				t.Errorf("the pod has the containers %s, want fluent-bit app", got)
			}
			wantNoError(t, c.want(&pod))
			if s := statusOf(&pod, "fluent-bit"); s.RestartCount != 0 {
				t.Errorf("the sidecar was restarted %d times", s.RestartCount)
			}
		})
	}
}

// The library's software is stood in for (see e2e/registry): what shows is that what a
// template asks of a node and of the pod can be had, and that probes, ports, volumes and
// users fit together.
func TestOnANodeEveryTemplateOfTheLibraryRuns(t *testing.T) {
	t.Parallel()
	for _, name := range append(charts.Names(), strings.Join(charts.Names(), ",")) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t, asksFor(t, name), restricted())
			pod := newRestrictedPod("web", nil)
			pod.Spec.Containers[0].Image = standInImage
			wanted, err := n.preview(t, pod)
			expectNoError(t, err)
			n.provide(t, wanted)
			n.mustCreate(t, pod)
			got := n.waitFor(t, "web", ready)
			if containerNames(got) != containerNames(wanted) {
				t.Errorf("containers %s, by dry run %s", containerNames(got), containerNames(wanted))
			}
			for _, s := range slices.Concat(got.Status.InitContainerStatuses, got.Status.ContainerStatuses) {
				if s.RestartCount != 0 {
					t.Errorf("container %s was restarted: %s", s.Name, pretty(s))
				}
			}
		})
	}
}

// provide makes the Secrets and ConfigMaps that the pod cannot start without.
func (n *namespace) provide(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	secrets, configMaps := map[string]map[string]string{}, map[string]map[string]string{}
	need := func(objects map[string]map[string]string, name string, items ...corev1.KeyToPath) {
		if objects[name] == nil {
			objects[name] = map[string]string{}
		}
		for _, item := range items {
			objects[name][item.Key] = "some " + item.Key
		}
	}
	for _, v := range pod.Spec.Volumes {
		if s := v.Secret; s != nil {
			need(secrets, s.SecretName, s.Items...)
		}
		if c := v.ConfigMap; c != nil {
			need(configMaps, c.Name, c.Items...)
		}
		if v.Projected == nil || strings.HasPrefix(v.Name, "kube-api-access") {
			continue
		}
		for _, source := range v.Projected.Sources {
			if s := source.Secret; s != nil {
				need(secrets, s.Name, s.Items...)
			}
			if c := source.ConfigMap; c != nil {
				need(configMaps, c.Name, c.Items...)
			}
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, e := range c.Env {
			from := cmp.Or(e.ValueFrom, &corev1.EnvVarSource{})
			if s := from.SecretKeyRef; s != nil {
				need(secrets, s.Name, corev1.KeyToPath{Key: s.Key})
			}
			if c := from.ConfigMapKeyRef; c != nil {
				need(configMaps, c.Name, corev1.KeyToPath{Key: c.Key})
			}
		}
	}
	for name, data := range secrets {
		create(t, client.CoreV1().Secrets(n.name), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data})
	}
	for name, data := range configMaps {
		create(t, client.CoreV1().ConfigMaps(n.name), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data})
	}
}

// Two replicas behind kube-proxy, an enforced namespace, and pods created all the time: both
// replicas answer, and while each is replaced, no pod is refused and none lacks its sidecar.
func TestOnANodeARollingUpdateCostsNoPod(t *testing.T) {
	backToOne(t)
	scale(t, 2)
	n := newNamespace(t, asking("fluent-bit"), enforced())
	injects(t, n, "fluent-bit")
	old := shared.Replicas(ground.Namespace)

	load := underLoadBy(t, n, "fluent-bit", 40) // an API server keeps connections, and opens another one when all are busy
	for _, r := range old {
		eventually(t, soon, func() error {
			return metric(r, "pillion_admission_requests_total{", `dry_run="true"`, `outcome="injected"`)
		})
	}
	load.stop(t)

	load = underLoadBy(t, n, "fluent-bit", 4)
	// As the users that OpenShift gives to a namespace: the old pods run as the image's own.
	must(t, "", "kubectl", "-n", ground.Namespace, "patch", "deployment", "pillion", "-p", `{"spec":{"template":{"spec":{"securityContext":{"runAsUser":1000660000,"runAsGroup":0,"fsGroup":1000660000}}}}}`)
	must(t, "", "kubectl", "-n", ground.Namespace, "rollout", "status", "deployment/pillion", "--timeout=120s")
	rolledOut(t, ground.Namespace)
	created := load.stop(t)[injected]
	if created < 100 {
		t.Errorf("only %d pods were created during the update: that shows little", created)
	}
	for _, r := range shared.Replicas(ground.Namespace) {
		if slices.ContainsFunc(old, func(o ground.Replica) bool { return r.Name == o.Name }) {
			t.Errorf("replica %s was not replaced", r.Name)
		}
	}
}
