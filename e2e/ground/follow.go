package ground

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// followPause is how long Follow rests between two looks.
const followPause = time.Second

// Follow keeps the Pillion of namespace as the chart's objects want it, until ctx ends:
// what `helm upgrade` changes takes effect, and `helm test` has its pod run. An error is
// written to the ground's output when it is another one than the last.
func (g *ControlPlane) Follow(ctx context.Context, namespace string) {
	var last string
	for ctx.Err() == nil {
		err := g.Rollout(ctx, namespace)
		if err == nil {
			err = g.RunTests(ctx, namespace)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != last && text != "" && ctx.Err() == nil {
			fmt.Fprintf(g.out, "following Pillion in %s: %s\n", namespace, text)
		}
		last = text
		select {
		case <-ctx.Done():
		case <-time.After(followPause):
		}
	}
}

// RunTests runs the pods of namespace that are to run once, have Pillion's image and have
// not run: those of `helm test`. Each is a process with a token of its service account.
// When it ends, the pod's status has its outcome, and the end of what it wrote as the
// message, since there is no kubelet to ask for its log.
func (g *ControlPlane) RunTests(ctx context.Context, namespace string) error {
	ctx, done := g.untilClosed(ctx)
	defer done()
	object, err := findDeployment(ctx, g.client, namespace)
	if err != nil || object == nil {
		return err
	}
	image := object.Spec.Template.Spec.Containers[0].Image
	pods, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"})
	if err != nil {
		return fmt.Errorf("looking for tests to run: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || pod.Spec.Containers[0].Image != image || pod.DeletionTimestamp != nil {
			continue
		}
		if err := g.runTest(ctx, pod); err != nil {
			return fmt.Errorf("running pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

func (g *ControlPlane) runTest(ctx context.Context, pod *corev1.Pod) error {
	dir := g.path(pod.Namespace, "test-"+string(pod.UID))
	defer os.RemoveAll(dir)
	p, err := surroundings{client: g.client, namespace: pod.Namespace, podName: pod.Name, dir: dir}.program(ctx, withoutToken(pod))
	if err != nil {
		return err
	}
	if err := p.writeFiles(); err != nil {
		return err
	}
	token, kubeconfig := filepath.Join(dir, "token"), filepath.Join(dir, "kubeconfig")
	if err := g.writeToken(ctx, pod.Namespace, pod.Spec.ServiceAccountName, token); err != nil {
		return err
	}
	if err := writeKubeconfig(kubeconfig, g.server, g.path("pki", "ca.crt"), &clientcmdapi.AuthInfo{TokenFile: token}, false); err != nil {
		return err
	}
	log := filepath.Join(dir, "log")
	process, err := startProcess(g.fork, pod.Name, g.checkout.Pillion(), append(p.Args, "--kubeconfig="+kubeconfig), p.Env, log)
	if err != nil {
		return err
	}
	limit := ctx
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, time.Duration(*seconds)*time.Second)
		defer cancel()
	}
	select {
	case <-process.exited:
	case <-limit.Done():
		process.stop(ctx, 0)
	}
	pod.Status.Phase = corev1.PodSucceeded
	if !process.cmd.ProcessState.Success() {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.Message = tail(log, 20)
	_, err = g.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// withoutToken is the spec of the pod without what mounts the service account's token:
// the process has a kubeconfig instead.
func withoutToken(pod *corev1.Pod) *corev1.PodSpec {
	spec := pod.Spec.DeepCopy()
	for i := range spec.Containers {
		spec.Containers[i].VolumeMounts = nil
	}
	return spec
}
