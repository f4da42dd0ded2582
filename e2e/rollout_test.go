package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// calledFor is the label of namespaces that Pillion is called for. These tests set it by
// hand: they are about pods that are there already.
const calledFor = "pillion.dev/injection"

// rolledSpec is a required template for the namespaces of a team, which has the template's
// name. IMAGE and USUAL differ from version to version.
const rolledSpec = `
match: {namespaceSelector: {matchLabels: {team: NAME}}}
required: true
parameters:
- {name: logLevel, type: string, enum: [error, info, debug], default: USUAL}
inject:
  spec:
    initContainers:
    - {name: NAME, restartPolicy: Always, image: "IMAGE", env: [{name: LOG_LEVEL, value: "${params.logLevel}"}]}
`

// rolled is a template that a namespace gets by its label.
func rolled(t *testing.T, image string) (manifest, *namespace) {
	t.Helper()
	m := manifest{name: unique("side"), spec: strings.NewReplacer("IMAGE", image, "USUAL", "info").Replace(rolledSpec)}
	m.apply(t)
	n := newNamespace(t, nil, map[string]string{"team": m.name, calledFor: "enabled"})
	m.version(t, n, image, "info")
	return m, n
}

// version applies a version of the template, and waits until a pod of the namespace gets it.
func (m manifest) version(t *testing.T, n *namespace, image, level string) {
	t.Helper()
	m.spec = strings.NewReplacer("IMAGE", image, "USUAL", level).Replace(rolledSpec)
	must(t, m.yaml(), "kubectl", "apply", "-f", "-")
	n.previews(t, inForce, newPod("probe", nil), func(pod *corev1.Pod) bool {
		c := sidecar(pod, m.name)
		return c != nil && c.Image == image && environment(c, "LOG_LEVEL") == level
	})
}

// deploy makes a Deployment whose pods no scheduler looks for, unless it is on a node.
func (n *namespace) deploy(t *testing.T, name string, replicas int32, spec corev1.PodSpec) {
	t.Helper()
	own := map[string]string{"app": name}
	_, err := client.AppsV1().Deployments(n.name).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: own},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: own}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	expectNoError(t, err)
}

// standInForAKubelet makes the pods of the namespace ready, and says of each native sidecar
// that it runs with the image that the pod has.
func (n *namespace) standInForAKubelet(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			pods, err := client.CoreV1().Pods(n.name).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, pod := range pods.Items {
				before := pretty(pod.Status)
				pod.Status.Phase = corev1.PodRunning
				pod.Status.ObservedGeneration = pod.Generation
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				pod.Status.InitContainerStatuses = nil
				for _, c := range pod.Spec.InitContainers {
					pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
						Name: c.Name, Image: c.Image, ContainerID: "test://" + c.Image, Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
				}
				if pretty(pod.Status) != before {
					_, _ = client.CoreV1().Pods(n.name).UpdateStatus(ctx, &pod, metav1.UpdateOptions{}) // or at the next look
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

// images returns the sidecar's image and the UID of each pod, by the pod's name.
func (n *namespace) images(t *testing.T, container string) (images, uids map[string]string) {
	t.Helper()
	pods, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
	expectNoError(t, err)
	images, uids = map[string]string{}, map[string]string{}
	for _, pod := range pods.Items {
		if c := sidecar(&pod, container); c != nil {
			images[pod.Name] = c.Image
		}
		uids[pod.Name] = string(pod.UID)
	}
	return images, uids
}

// budgetOfWeb is a disruption budget that keeps so many pods of web.
func budgetOfWeb(pods int) string {
	return fmt.Sprintf("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: %d, selector: {matchLabels: {app: web}}}}", pods)
}

// howMany returns how many of the values are want.
func howMany(all map[string]string, want string) (n int) {
	for _, v := range all {
		if v == want {
			n++
		}
	}
	return n
}

// A Deployment of two pods with a disruption budget, a Job and a bare pod, in a namespace
// with a required template, go through three versions of the template.
func TestARolloutBringsRunningPodsUpToDate(t *testing.T) {
	t.Parallel()
	m, n := rolled(t, "registry.example.com/ship:1")
	n.standInForAKubelet(t)
	spec := newPod("", nil).Spec
	spec.SchedulerName = "nobody"
	n.deploy(t, "web", 2, spec)
	bare := newPod("bare", nil)
	bare.Spec.SchedulerName = "nobody"
	n.mustCreate(t, bare)
	must(t, `
{apiVersion: batch/v1, kind: Job, metadata: {name: import}, spec: {template: {spec: {schedulerName: nobody, restartPolicy: Never, containers: [{name: app, image: "nginx:1.29"}]}}}}
---
`+budgetOfWeb(1), "kubectl", "-n", n.name, "apply", "-f", "-")
	eventually(t, soon, func() error {
		d, err := client.AppsV1().Deployments(n.name).Get(t.Context(), "web", metav1.GetOptions{})
		if images, _ := n.images(t, m.name); err == nil && (d.Status.ReadyReplicas != 2 || howMany(images, "registry.example.com/ship:1") != 4) {
			err = fmt.Errorf("%d pods are ready, and the images are %v", d.Status.ReadyReplicas, images)
		}
		return err
	})
	generation := func() int64 {
		d, err := client.AppsV1().Deployments(n.name).Get(t.Context(), "web", metav1.GetOptions{})
		expectNoError(t, err)
		return d.Generation
	}
	rollout := func(args ...string) string {
		t.Helper()
		return must(t, "", "pillion", append([]string{"rollout", n.name, "--timeout=60s", "--wave=1"}, args...)...)
	}

	// Evict.
	m.version(t, n, "registry.example.com/ship:2", "info")
	_, before := n.images(t, m.name)
	out := rollout("--dry-run")
	for _, want := range []string{"0 of 4 pods up to date", "deployment/web in namespace " + n.name + ": evict 2 of 2 pods (outdated: " + m.name + ")",
		"not touched: pod/bare in namespace " + n.name, "not touched: job/import in namespace " + n.name, "dry run: nothing was touched"} {
		if !strings.Contains(out, want) {
			t.Errorf("rollout --dry-run says\n%s\nwant %q", out, want)
		}
	}
	if _, after := n.images(t, m.name); !maps.Equal(before, after) {
		t.Errorf("a dry run makes of the pods %v %v", before, after)
	}
	gen := generation()
	out = rollout()
	images, after := n.images(t, m.name)
	if howMany(images, "registry.example.com/ship:2") != 2 || howMany(images, "registry.example.com/ship:1") != 2 || after["bare"] != before["bare"] || generation() != gen || !strings.Contains(out, "done: 2 pods were evicted and replaced in 2 waves") {
		t.Errorf("images %v, pods %v, were %v, generation %d, was %d, and it says\n%s", images, after, before, generation(), gen, out)
	}
	if out := rollout(); !strings.Contains(out, "2 of 4 pods up to date") || !strings.Contains(out, "nothing to do") {
		t.Errorf("once more it says\n%s", out)
	}

	// In place: the same pods, and the next look says that they are up to date.
	m.version(t, n, "registry.example.com/ship:3", "info")
	_, before = n.images(t, m.name)
	out = rollout("--in-place")
	images, after = n.images(t, m.name)
	if howMany(images, "registry.example.com/ship:3") != 2 || !maps.Equal(before, after) || generation() != gen || !strings.Contains(out, "done: 2 pods were changed in place in 2 waves") {
		t.Errorf("images %v, pods %v, were %v, generation %d, was %d, and it says\n%s", images, after, before, generation(), gen, out)
	}
	if out := rollout("--dry-run"); !strings.Contains(out, "2 of 4 pods up to date") {
		t.Errorf("after the change in place it says\n%s", out)
	}

	// What differs in more is not changed in place, and restarted.
	m.version(t, n, "registry.example.com/ship:4", "debug")
	if out, _, err := run(t, "", "pillion", "rollout", n.name, "--in-place"); err == nil || !strings.Contains(out, "its sidecar "+m.name+" would change in env") {
		t.Errorf("--in-place (%v) says\n%s", err, out)
	}
	if images, _ := n.images(t, m.name); howMany(images, "registry.example.com/ship:3") != 2 {
		t.Errorf("--in-place leaves the images %v", images)
	}
	out = rollout("--restart")
	if images, _ := n.images(t, m.name); howMany(images, "registry.example.com/ship:4") != 2 || generation() != gen+1 || !strings.Contains(out, "done: 1 workload was restarted in one wave") {
		t.Errorf("images %v, generation %d, was %d, and it says\n%s", images, generation(), gen, out)
	}

	// A parameter that is not allowed would leave the Deployment without pods.
	m.version(t, n, "registry.example.com/ship:5", "debug")
	must(t, "", "kubectl", "annotate", "namespace", n.name, m.name+".pillion.dev/log-level=info")
	_, before = n.images(t, m.name)
	for _, mode := range []string{"--evict", "--restart", "--in-place"} {
		eventually(t, soon, func() error {
			_, stderr, err := run(t, "", "pillion", "rollout", n.name, mode)
			if err == nil || !strings.Contains(stderr, "nothing was touched: a new pod of deployment/web in namespace "+n.name+" would be refused: ") || !strings.Contains(stderr, "log-level") {
				return fmt.Errorf("%s says %w\n%s", mode, err, stderr)
			}
			return nil
		})
	}
	if _, after := n.images(t, m.name); !maps.Equal(before, after) {
		t.Errorf("where new pods would be refused, it makes of the pods %v %v", before, after)
	}
}

// A disruption budget that lets no pod go, and a paused Deployment, keep no other workload from being
// brought up to date. The commands that are named leave them out, and mend them.
func TestARolloutGoesOnWhereOneWorkloadCannot(t *testing.T) {
	t.Parallel()
	m, n := rolled(t, "registry.example.com/ship:1")
	n.standInForAKubelet(t)
	spec := newPod("", nil).Spec
	spec.SchedulerName = "nobody"
	n.deploy(t, "api", 1, spec)
	n.deploy(t, "web", 2, spec)
	must(t, budgetOfWeb(2), "kubectl", "-n", n.name, "apply", "-f", "-")
	eventually(t, soon, func() error {
		budget, err := client.PolicyV1().PodDisruptionBudgets(n.name).Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && budget.Status.CurrentHealthy != 2 {
			err = fmt.Errorf("%d pods of web are healthy", budget.Status.CurrentHealthy)
		}
		return err
	})
	// rollout leaves web for a reason, and returns the command without it.
	rollout := func(image, why string, args ...string) []string {
		t.Helper()
		m.version(t, n, image, "info")
		out, stderr, err := run(t, "", "pillion", append([]string{"rollout", n.name, "--timeout=8s"}, args...)...)
		command := regexp.MustCompile(`(?m)^without them: pillion (.*)$`).FindStringSubmatch(out)
		if err == nil || command == nil || !strings.Contains(out, "left: 2 pods of deployment/web in namespace "+n.name+": outdated: "+m.name+"; "+why) {
			t.Fatalf("%v:\n%s%s\nwant %q", err, out, stderr, why)
		}
		if images, _ := n.images(t, m.name); howMany(images, image) != 1 {
			t.Errorf("the images are %v, want %s in the pod of api", images, image)
		}
		return strings.Fields(command[1])
	}
	without := rollout("registry.example.com/ship:2", "not done within 8s: ")
	if out := must(t, "", "pillion", without...); !strings.Contains(out, "left out by --except") {
		t.Errorf("%s says\n%s", without, out)
	}
	must(t, "", "kubectl", "-n", n.name, "rollout", "pause", "deployment/web")
	without = rollout("registry.example.com/ship:3", "it is paused: kubectl -n "+n.name+" rollout resume deployment/web", "--restart")
	must(t, "", "pillion", without...)
	does(t, "kubectl -n "+n.name+" rollout resume deployment/web")
	must(t, "", "pillion", "rollout", n.name, "--restart", "--timeout=60s")
	if images, _ := n.images(t, m.name); howMany(images, "registry.example.com/ship:3") != 3 {
		t.Errorf("after it is resumed, the images are %v", images)
	}

	// A Deployment that rolls out replaces its old pods itself. The new one is not available for a while.
	m.version(t, n, "registry.example.com/ship:4", "info")
	_, before := n.images(t, m.name)
	must(t, "", "kubectl", "-n", n.name, "patch", "deployment", "web", "-p", `{"spec":{"minReadySeconds":500,"template":{"metadata":{"annotations":{"changed":"yes"}}}}}`)
	eventually(t, soon, func() error {
		if images, _ := n.images(t, m.name); howMany(images, "registry.example.com/ship:4") != 1 {
			return fmt.Errorf("no new pod: %v", images)
		}
		return nil
	})
	out, _, err := run(t, "", "pillion", "rollout", n.name, "--timeout=60s")
	images, after := n.images(t, m.name)
	if err == nil || !strings.Contains(out, "2 pods are left to their Deployments, which are replacing them") || howMany(images, "registry.example.com/ship:4") != 2 {
		t.Errorf("%v, images %v: it says\n%s", err, images, out)
	}
	for name, uid := range before {
		if strings.HasPrefix(name, "web-") && after[name] != uid {
			t.Errorf("pod %s of the old ReplicaSet is replaced", name)
		}
	}
	says(t, []string{"-n", n.name, "deploy/web"}, "1 of 3 pods up to date", "outdated: "+m.name+"; of an older pod template, by ReplicaSet web-")
}

// kubeconfig returns a file for a new service account of the namespace.
func (n *namespace) kubeconfig(t *testing.T, account string) string {
	t.Helper()
	create(t, client.CoreV1().ServiceAccounts(n.name), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}})
	token, err := client.CoreV1().ServiceAccounts(n.name).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	expectNoError(t, err)
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	expectNoError(t, clientcmd.WriteToFile(*c, path))
	return path
}

// The sidecar's new version reaches pods that run, and the app does not notice.
func TestOnANodeAChangeInPlaceRestartsTheSidecarAlone(t *testing.T) {
	t.Parallel()
	m, n := rolled(t, "ship.example.com/shipper:1")
	n.deploy(t, "web", 2, newRunningPod("", nil).Spec)
	must(t, "", "kubectl", "-n", n.name, "rollout", "status", "deployment/web", "--timeout=90s")
	pods := func() map[string]corev1.Pod {
		list, err := client.CoreV1().Pods(n.name).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Fatalf("%d pods (%v), want 2", len(list.Items), err)
		}
		all := map[string]corev1.Pod{}
		for _, pod := range list.Items {
			all[string(pod.UID)] = pod
		}
		return all
	}
	before := pods()
	m.version(t, n, "ship.example.com/shipper:2", "info")
	out := must(t, "", "pillion", "rollout", m.name, "--in-place", "--wave=2", "--timeout=90s")
	if !strings.Contains(out, m.name+": ship.example.com/shipper:1 becomes ship.example.com/shipper:2") || !strings.Contains(out, "done: 2 pods were changed in place") {
		t.Errorf("it says\n%s", out)
	}
	for uid, pod := range pods() {
		was := before[uid]
		if was.Name == "" {
			t.Fatalf("pod %s is new", pod.Name)
		}
		app, appWas, side, sideWas := statusOf(&pod, "app"), statusOf(&was, "app"), statusOf(&pod, m.name), statusOf(&was, m.name)
		if app.ContainerID != appWas.ContainerID || app.RestartCount != appWas.RestartCount || app.State.Running == nil || !app.State.Running.StartedAt.Equal(&appWas.State.Running.StartedAt) {
			t.Errorf("the app's container was\n%s\nand is\n%s", pretty(appWas), pretty(app))
		}
		if side.ContainerID == sideWas.ContainerID || side.State.Running == nil || sidecar(&pod, m.name).Image != "ship.example.com/shipper:2" || ready(&pod) != nil {
			t.Errorf("the sidecar's container was\n%s\nand is\n%s", pretty(sideWas), pretty(side))
		}
		if pod.Annotations[statusAnnotation] == was.Annotations[statusAnnotation] {
			t.Errorf("the record of pod %s is as it was: %s", pod.Name, pod.Annotations[statusAnnotation])
		}
	}
	if out := must(t, "", "pillion", "rollout", m.name, "--dry-run"); !strings.Contains(out, "2 of 2 pods up to date") {
		t.Errorf("a second look says\n%s", out)
	}
}
