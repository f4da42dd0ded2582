package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
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
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for _, s := range list {
			if s.Name == name {
				return s
			}
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
	if log := must(t, "", "kubectl", "-n", n.name, "logs", "web", "-c", "app"); !strings.Contains(log, "fluent-bit answers /api/v1/health") {
		t.Errorf("the app's log:\n%s", log)
	}
	if log := must(t, "", "kubectl", "-n", n.name, "logs", "web", "-c", "fluent-bit"); !strings.Contains(log, "standing in for fluent-bit") || !strings.Contains(log, "asked to end") {
		t.Errorf("the sidecar's log:\n%s", log)
	}
}

// Every byte of a file arrives: the last line's end, tabs, and control characters.
func TestOnANodeASidecarReadsItsRenderedFile(t *testing.T) {
	t.Parallel()
	name := served(t, filesSpec).name
	n := newNamespace(t, asking(name), nil)
	n.mustCreate(t, newRunningPod("web", map[string]string{name + ".pillion.dev/level": "debug"}))
	n.waitFor(t, "web", ready)
	want := `/etc/side/side.conf has "level debug\tof shop\r\n$(X) ${HOME}\x01 \"ü\"\n\n"`
	if log := must(t, "", "kubectl", "-n", n.name, "logs", "web", "-c", name); !strings.Contains(log, want) {
		t.Errorf("the sidecar's log is\n%swant %s", log, want)
	}
}

func TestOnANodeThePodsOfEveryWorkloadRunWithTheirSidecar(t *testing.T) {
	t.Parallel()
	const template = `{metadata: {labels: {app: web}}, spec: {%s containers: [{name: app, image: "` + standInImage + `"%s}]}}`
	serving := fmt.Sprintf(template, "", "")
	ending := fmt.Sprintf(template, "restartPolicy: Never,", `, args: [get, "http://127.0.0.1:2020/"]`)
	tests := []struct {
		kind     string
		manifest string
		command  []string // of kubectl
		pods     int
		want     func(*corev1.Pod) error
	}{
		{
			kind:     "Deployment",
			manifest: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2, selector: {matchLabels: {app: web}}, template: " + serving + "}",
			command:  []string{"rollout", "status", "deployment/web", "--timeout=90s"},
			pods:     2, want: ready,
		},
		{
			kind:     "DaemonSet",
			manifest: "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: web}\nspec: {selector: {matchLabels: {app: web}}, template: " + serving + "}",
			command:  []string{"rollout", "status", "daemonset/web", "--timeout=90s"},
			pods:     1, want: ready,
		},
		{
			kind:     "Job",
			manifest: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: web}\nspec: {completions: 2, parallelism: 2, template: " + ending + "}",
			command:  []string{"wait", "--for=condition=Complete", "job/web", "--timeout=90s"},
			pods:     2, want: phase(corev1.PodSucceeded),
		},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			n := newNamespace(t, asking("fluent-bit"), enforced())
			must(t, test.manifest, "kubectl", "-n", n.name, "apply", "-f", "-")
			must(t, "", "kubectl", append([]string{"-n", n.name}, test.command...)...)
			for _, pod := range n.waitPods(t, test.pods, "app=web") {
				if got := containerNames(&pod); got != "fluent-bit app" {
					t.Errorf("pod %s has the containers %s, want fluent-bit app", pod.Name, got)
				}
				if err := test.want(&pod); err != nil {
					t.Errorf("pod %s: %v", pod.Name, err)
				}
				if s := statusOf(&pod, "fluent-bit"); s.RestartCount != 0 {
					t.Errorf("the sidecar of pod %s was restarted %d times", pod.Name, s.RestartCount)
				}
			}
		})
	}
}

// A template of a mesh's proxy points the app's probes to the proxy, and has an init
// container before it. The kubelet's probes decide whether that works.
func TestOnANodeRewrittenProbesAreGreen(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile(checkout.Path("injector", "testdata", "templates", "mesh-proxy.yaml"))
	expectNoError(t, err)
	must(t, string(template), "kubectl", "apply", "-f", "-")
	t.Cleanup(func() { remove(t, "sidecartemplate/mesh-proxy") })
	manifest{name: "mesh-proxy"}.waitServed(t)
	n := newNamespace(t, asking("mesh-proxy"), nil)
	must(t, `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: `+standInImage+`
    env: [{name: STANDIN_LISTEN, value: "8080"}]
    startupProbe: {httpGet: {path: /start, port: 8080}, periodSeconds: 1}
    livenessProbe: {httpGet: {path: /live, port: 8080}, periodSeconds: 1, failureThreshold: 1}
    readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
`, "kubectl", "-n", n.name, "apply", "-f", "-")
	n.waitFor(t, "web", ready)
	time.Sleep(3 * time.Second) // of liveness probes
	pod := n.waitFor(t, "web", ready)
	app := sidecar(pod, "app")
	if got := app.LivenessProbe.HTTPGet; got.Path != "/app/app/live" || got.Port.IntValue() != 15021 {
		t.Errorf("the liveness probe asks %s on port %s, want the proxy's", got.Path, &got.Port)
	}
	for _, name := range []string{"app", "mesh-proxy"} {
		if s := statusOf(pod, name); s.RestartCount != 0 || s.Started == nil || !*s.Started {
			t.Errorf("container %s was restarted %d times (started: %v)", name, s.RestartCount, s.Started)
		}
	}
	if s := statusOf(pod, "mesh-init"); s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
		t.Errorf("the init container: %s", pretty(s.State))
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
			annotations := maps.Clone(librarySettings)
			maps.Copy(annotations, asking(name))
			n := newNamespace(t, annotations, restricted())
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
			for _, list := range [][]corev1.ContainerStatus{got.Status.InitContainerStatuses, got.Status.ContainerStatuses} {
				for _, s := range list {
					if s.RestartCount != 0 {
						t.Errorf("container %s was restarted: %s", s.Name, pretty(s))
					}
				}
			}
		})
	}
}

// provide makes the Secrets and ConfigMaps that the pod cannot start without.
func (n *namespace) provide(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	secrets, configMaps := map[string]map[string]string{}, map[string]map[string]string{}
	need := func(objects map[string]map[string]string, name string, keys ...string) {
		if objects[name] == nil {
			objects[name] = map[string]string{}
		}
		for _, key := range keys {
			objects[name][key] = "some " + key
		}
	}
	keys := func(items []corev1.KeyToPath) (keys []string) {
		for _, item := range items {
			keys = append(keys, item.Key)
		}
		return keys
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			need(secrets, v.Secret.SecretName, keys(v.Secret.Items)...)
		}
		if v.ConfigMap != nil {
			need(configMaps, v.ConfigMap.Name, keys(v.ConfigMap.Items)...)
		}
		if v.Projected != nil && !strings.HasPrefix(v.Name, "kube-api-access") {
			for _, source := range v.Projected.Sources {
				if source.Secret != nil {
					need(secrets, source.Secret.Name, keys(source.Secret.Items)...)
				}
				if source.ConfigMap != nil {
					need(configMaps, source.ConfigMap.Name, keys(source.ConfigMap.Items)...)
				}
			}
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					need(secrets, e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key)
				}
				if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
					need(configMaps, e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Key)
				}
			}
		}
	}
	for name, data := range secrets {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
		create(t, client.CoreV1().Secrets(n.name), object)
	}
	for name, data := range configMaps {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		create(t, client.CoreV1().ConfigMaps(n.name), object)
	}
}

// A static pod runs whatever the API server says. Its mirror there cannot be changed, and
// a webhook that refuses it only blinds everybody who looks at the API.
func TestOnANodeAStaticPodIsMirroredAsItIs(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, asking("fluent-bit"), enforced())
	name := unique("static")
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": n.name},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": standInImage}}},
	})
	expectNoError(t, err)
	file := filepath.Join(shared.(*ground.Node).StaticPods(), name+".json")
	expectNoError(t, os.WriteFile(file, text, 0o600))
	mirror := name + "-node"
	t.Cleanup(func() {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
		eventually(t, running, func() error {
			if _, err := client.CoreV1().Pods(n.name).Get(context.Background(), mirror, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the static pod is still there (%v)", err)
			}
			return nil
		})
	})
	pod := n.waitFor(t, mirror, ready)
	if pod.Annotations[corev1.MirrorPodAnnotationKey] == "" {
		t.Fatalf("it is no mirror pod: %s", pretty(pod.ObjectMeta))
	}
	if got := containerNames(pod); got != "app" || pod.Annotations[statusAnnotation] != "" {
		t.Errorf("containers %s, status %q; want the mirror as it is", got, pod.Annotations[statusAnnotation])
	}
}

func TestOnANodeAnInjectedPodIsDebuggedAndCopied(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, asking("fluent-bit"), enforced())
	n.mustCreate(t, newRunningPod("web", nil))
	before := n.waitFor(t, "web", ready)

	must(t, "", "kubectl", "-n", n.name, "debug", "web", "--image=debugger.example.com/tools:1", "--container=look", "--target=app",
		"--", "/standin", "get", "http://127.0.0.1:2020/seen-by-debug")
	pod := n.waitFor(t, "web", func(pod *corev1.Pod) error {
		if s := statusOf(pod, "look"); s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			return fmt.Errorf("the ephemeral container has not ended well")
		}
		return nil
	})
	if log := must(t, "", "kubectl", "-n", n.name, "logs", "web", "-c", "look"); !strings.Contains(log, "fluent-bit answers /seen-by-debug") {
		t.Errorf("the ephemeral container's log:\n%s", log)
	}
	if pod.Annotations[statusAnnotation] != before.Annotations[statusAnnotation] || containerNames(pod) != containerNames(before) {
		t.Errorf("an ephemeral container changed what Pillion injected: %s", pretty(pod))
	}

	// The copy has no annotations, and so no status.
	must(t, "", "kubectl", "-n", n.name, "debug", "web", "--image=debugger.example.com/tools:1", "--container=look", "--copy-to=copy", "--", "/standin")
	duplicate := n.waitFor(t, "copy", ready)
	if got := containerNames(duplicate); got != "fluent-bit app look" {
		t.Errorf("the copy has the containers %s, want fluent-bit once", got)
	}
}

// resizableSpec is a sidecar that runs on the node.
const resizableSpec = `
inject:
  spec:
    initContainers:
    - {name: NAME, $position: First, restartPolicy: Always, image: "` + standInImage + `", resources: {requests: {cpu: 20m, memory: 32Mi}}}
`

func TestOnANodeAPodAndItsRequiredSidecarAreResizedInPlaceWhereTheTemplateAllowsIt(t *testing.T) {
	t.Parallel()
	m, n := newRequiredBy(t, "\nverify: {allow: {resources: true}}"+resizableSpec, enforced())
	pod := newRunningPod("web", nil)
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	n.mustCreate(t, pod)
	n.waitFor(t, "web", ready)
	const wants = `,"resources":{"requests":{"cpu":"30m"}}}]`
	must(t, "", "kubectl", "-n", n.name, "patch", "pod", "web", "--subresource=resize", "--patch",
		`{"spec":{"initContainers":[{"name":"`+m.name+`"`+wants+`,"containers":[{"name":"app"`+wants+`}}`)
	resized := []string{m.name, "app"}
	after := n.waitFor(t, "web", func(pod *corev1.Pod) error {
		for _, c := range resized {
			if r := statusOf(pod, c).Resources; r == nil || r.Requests.Cpu().String() != "30m" {
				return fmt.Errorf("the container %s has not been resized: %s", c, pretty(r))
			}
		}
		return nil
	})
	for _, c := range resized {
		if s := statusOf(after, c); s.RestartCount != 0 {
			t.Errorf("the container %s was restarted %d times", c, s.RestartCount)
		}
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
	eventually(t, soon, func() error {
		for _, r := range old {
			if err := metric(r, "pillion_admission_requests_total{", `dry_run="true"`, `outcome="injected"`); err != nil {
				return err
			}
		}
		return nil
	})
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
		for _, o := range old {
			if r.Name == o.Name {
				t.Errorf("replica %s was not replaced", r.Name)
			}
		}
	}
}

func TestOnANodeTheImageIsMinimalAndTheOneThatRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	digest, err := ground.BuildImage(t.Context(), checkout, filepath.Join(dir, "buildah"), "oci:"+filepath.Join(dir, "image"))
	expectNoError(t, err)
	config, files := readImage(t, filepath.Join(dir, "image"))
	want := []string{"LICENSE", "pillion-webhook"}
	licenses := checkout.Path("bin", "licenses")
	err = filepath.WalkDir(licenses, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			want = append(want, "licenses"+filepath.ToSlash(strings.TrimPrefix(path, licenses)))
		}
		return err
	})
	slices.Sort(want)
	if err != nil || !slices.Contains(want, "licenses/MODULES.tsv") || !slices.Equal(files, want) {
		t.Errorf("the image has the files %s, want %s (%v)", files, want, err)
	}
	if config.User != "65532:65532" || strings.Join(config.Entrypoint, " ") != "/pillion-webhook" {
		t.Errorf("user %q, entry point %q", config.User, config.Entrypoint)
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if value := config.Labels["org.opencontainers.image."+label]; value == "" || value == "unknown" {
			t.Errorf("the label %s is %q", label, value)
		}
	}
	pods, err := client.CoreV1().Pods(ground.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pillion"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods of Pillion (%v)", len(pods.Items), err)
	}
	if id := pods.Items[0].Status.ContainerStatuses[0].ImageID; !strings.HasSuffix(id, "@"+digest) {
		t.Errorf("Pillion runs %s, want the image %s", id, digest)
	}
}
