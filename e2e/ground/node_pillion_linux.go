package ground

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// rolloutLimit is how long a rollout of Pillion may take: starting pods and stopping
// others, one after the other.
const rolloutLimit = 3 * time.Minute

// Rollout implements Ground.
func (g *Node) Rollout(ctx context.Context, namespace string) error {
	ctx, done := g.untilClosed(ctx)
	defer done()
	limited, cancel := context.WithTimeoutCause(ctx, rolloutLimit, fmt.Errorf("not rolled out after %s", rolloutLimit))
	defer cancel()
	err := poll(limited, func(ctx context.Context) (bool, error) {
		err := g.rolledOut(ctx, namespace)
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for Pillion in %s: %w", namespace, err)
	}
	return nil
}

// rolledOut is nil if exactly the pods run that the namespace's Deployment asks for, and
// its Service leads to them.
func (g *Node) rolledOut(ctx context.Context, namespace string) error {
	object, err := findDeployment(ctx, g.client, namespace)
	if err != nil {
		return err
	}
	pods, err := g.pods(ctx, namespace)
	if err != nil {
		return err
	}
	if object == nil {
		if len(pods) > 0 {
			return fmt.Errorf("no Deployment, and still %d pods", len(pods))
		}
		return nil
	}
	wanted := int(*object.Spec.Replicas)
	status := object.Status
	if status.ObservedGeneration < object.Generation || int(status.UpdatedReplicas) != wanted || len(pods) != wanted {
		return fmt.Errorf("%d replicas of %d are up to date, and there are %d pods", status.UpdatedReplicas, wanted, len(pods))
	}
	for _, pod := range pods {
		if !isReady(pod) {
			return fmt.Errorf("pod %s is not ready: %s", pod.Name, pod.Status.String())
		}
	}
	address, err := clusterIP(ctx, g.client, object)
	if err != nil {
		return err
	}
	// kube-proxy follows the pods with a delay.
	err = g.space.dial(netip.AddrPortFrom(address, servicePort))
	switch {
	case wanted > 0 && err != nil:
		return err
	case wanted == 0 && err == nil:
		return errors.New("no replica, and still somebody answers for the Service")
	}
	return nil
}

// pods are Pillion's, also those that are ending.
func (g *Node) pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	// As in the chart's selectorLabels.
	list, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pillion"})
	if err != nil {
		return nil, fmt.Errorf("looking for Pillion's pods: %w", err)
	}
	return list.Items, nil
}

func isReady(pod corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// Scale implements Ground, by the Deployment.
func (g *Node) Scale(ctx context.Context, namespace string, n int) error {
	if err := g.setReplicas(ctx, namespace, n); err != nil {
		return err
	}
	return g.Rollout(ctx, namespace)
}

func (g *Node) setReplicas(ctx context.Context, namespace string, n int) error {
	object, err := findDeployment(ctx, g.client, namespace)
	if err != nil {
		return err
	}
	if object == nil {
		return fmt.Errorf("scaling Pillion: no Deployment in namespace %s", namespace)
	}
	deployments := g.client.AppsV1().Deployments(namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		scale, err := deployments.GetScale(ctx, object.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("scaling Pillion: %w", err)
		}
		scale.Spec.Replicas = int32(n)
		_, err = deployments.UpdateScale(ctx, object.Name, scale, metav1.UpdateOptions{})
		return err
	})
}

// Kill implements Ground: the Deployment is scaled to none, its pods are taken out of the
// API, and their processes are killed before the kubelet asks them to end.
func (g *Node) Kill(namespace string) error {
	replicas := g.Replicas(namespace)
	if len(replicas) == 0 {
		return fmt.Errorf("killing Pillion in %s: none runs", namespace)
	}
	ctx := g.life
	if err := g.setReplicas(ctx, namespace, 0); err != nil {
		return err
	}
	for _, r := range replicas {
		if r.PID != 0 {
			_ = syscall.Kill(r.PID, syscall.SIGKILL) // an error means that it is gone already
		}
		now := int64(0)
		err := g.client.CoreV1().Pods(namespace).Delete(ctx, r.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("killing Pillion: %w", err)
		}
	}
	return g.Rollout(ctx, namespace)
}

// Replicas implements Ground. One that is being stopped is not among them.
func (g *Node) Replicas(namespace string) []Replica {
	pods, err := g.pods(g.life, namespace)
	if err != nil {
		fmt.Fprintln(g.out, err)
		return nil
	}
	var running []Replica
	for _, pod := range pods {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		if err != nil || !isReady(pod) {
			continue
		}
		r := Replica{
			Name:  pod.Name,
			Serve: netip.AddrPortFrom(address, containerPort(pod, "webhook")),
			Admin: netip.AddrPortFrom(address, containerPort(pod, "admin")),
			Log: filepath.Join(g.path("podlogs"), fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID),
				pod.Spec.Containers[0].Name, "0.log"),
		}
		for _, c := range pod.Status.ContainerStatuses {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			r.PID = g.space.processOf(id)
		}
		running = append(running, r)
	}
	return running
}

// containerPort is the port of that name of the pod's first container.
func containerPort(pod corev1.Pod, name string) uint16 {
	for _, p := range pod.Spec.Containers[0].Ports {
		if p.Name == name {
			return uint16(p.ContainerPort)
		}
	}
	return 0
}
