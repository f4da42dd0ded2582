package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
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
	create(t, client.AppsV1().Deployments(n.name), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: own},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: own}, Spec: spec},
	}})
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

// howMany returns how many of the values are want.
func howMany(all map[string]string, want string) (n int) {
	for _, v := range all {
		if v == want {
			n++
		}
	}
	return n
}

// A Deployment of two pods, a DaemonSet with OnDelete, a Job and a bare pod, in a namespace with a
// required template, go through the versions of the template.
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
	must(t, untouchedWorkloads, "kubectl", "-n", n.name, "apply", "-f", "-")
	eventually(t, soon, func() error {
		d, err := client.AppsV1().Deployments(n.name).Get(t.Context(), "web", metav1.GetOptions{})
		if images, _ := n.images(t, m.name); err == nil && (d.Status.ReadyReplicas != 2 || howMany(images, "registry.example.com/ship:1") != 5) {
			err = fmt.Errorf("%d pods are ready, and the images are %v", d.Status.ReadyReplicas, images)
		}
		return err
	})
	// rollout ends with an error where the pod of db is left.
	rollout := func(args ...string) (string, error) {
		t.Helper()
		out, _, err := run(t, "", "pillion", append([]string{"rollout", n.name, "--timeout=60s"}, args...)...)
		return out, err
	}
	in := " in namespace " + n.name

	// A restart, and what it does not reach.
	m.version(t, n, "registry.example.com/ship:2", "info")
	_, before := n.images(t, m.name)
	out, err := rollout("--dry-run")
	wantTexts(t, "rollout", out, "0 of 5 pods up to date", "deployment/web"+in+": restart (pods: 2; outdated: "+m.name+")", "not touched: pod/bare"+in+" (pods: 1)", "no controller replaces it",
		"not touched: job/import"+in, "not touched: statefulset/db"+in, "its update strategy is OnDelete", "dry run: nothing was touched")
	if _, after := n.images(t, m.name); err == nil || !maps.Equal(before, after) {
		t.Errorf("a dry run (%v) makes of the pods %v %v", err, before, after)
	}
	out, err = rollout()
	images, after := n.images(t, m.name)
	if err == nil || howMany(images, "registry.example.com/ship:2") != 2 || howMany(images, "registry.example.com/ship:1") != 3 || after["bare"] != before["bare"] {
		t.Errorf("%v: images %v, pods %v, were %v, and it says\n%s", err, images, after, before, out)
	}
	wantTexts(t, "rollout", out, "done: 2 of 5 pods up to date")
	// A pod that is deleted by hand comes back with the version in force.
	does(t, "kubectl -n "+n.name+" delete pod db-0")
	eventually(t, soon, func() error {
		if images, _ = n.images(t, m.name); images["db-0"] != "registry.example.com/ship:2" {
			return fmt.Errorf("the images are %v", images)
		}
		return nil
	})
	// In place: the same pods, also those that nothing replaces.
	m.version(t, n, "registry.example.com/ship:3", "info")
	_, before = n.images(t, m.name)
	out, err = rollout("--in-place")
	images, after = n.images(t, m.name)
	if err != nil || howMany(images, "registry.example.com/ship:3") != 5 || !maps.Equal(before, after) {
		t.Errorf("%v: images %v, pods %v, were %v, and it says\n%s", err, images, after, before, out)
	}
	wantTexts(t, "rollout", out, "done: 5 of 5 pods up to date")
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
	out := must(t, "", "pillion", "rollout", m.name, "--in-place", "--timeout=90s")
	wantTexts(t, "rollout", out, m.name+": ship.example.com/shipper:1 becomes ship.example.com/shipper:2", "done: 2 of 2 pods up to date")
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
	wantTexts(t, "a second look", must(t, "", "pillion", "rollout", m.name, "--dry-run"), "2 of 2 pods up to date")
}
