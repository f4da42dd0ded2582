package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pillion-dev/pillion/injector/owner"
)

// Owner is what makes a new pod in place of one that goes.
type Owner struct {
	Namespace, APIVersion, Kind, Name string
}

// String returns the owner as kubectl takes it, such as deployment/web.
func (o Owner) String() string { return strings.ToLower(o.Kind) + "/" + o.Name }

// key names the owner in a cluster, such as shop/deployment/web.
func (o Owner) key() string { return o.Namespace + "/" + o.String() }

// resource returns the API resource of the owner, known if it is a kind of Kubernetes itself
// that replaces pods.
func (o Owner) resource() (resource schema.GroupVersionResource, known bool) {
	kind, known := owner.Of(o.APIVersion, o.Kind)
	return kind.GroupVersionResource, known && kind.Group != "batch"
}

// restartable reports whether a change of the owner's pod template replaces its pods.
func (o Owner) restartable() bool {
	kind, _ := owner.Of(o.APIVersion, o.Kind)
	return kind.Restarts
}

// Pod is what counts of a pod.
type Pod struct {
	Namespace, Name, UID string
	// Ready: it is ready, and is not going.
	Ready bool
	// Going: somebody deleted it, and it has not ended yet.
	Going bool
	// Behind says how the pod differs from one that is created now. It is empty for a pod
	// that is up to date.
	Behind string
	// Cannot says why this mode cannot bring it up to date, empty if it can.
	Cannot string
	// Free: the pod stays available while it is brought up to date.
	Free bool

	// owner is what makes a new one in its place, controller what made it.
	owner, controller Owner
	superseded        bool
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Workload is an owner with its pods.
type Workload struct {
	Owner
	// Desired is how many pods the owner wants.
	Desired int
	// MaxUnavailable is how many of them may be away at once: at least one.
	MaxUnavailable int
	Pods           []Pod
}

// ready returns how many pods are ready.
func (w Workload) ready() (n int) {
	for _, p := range w.Pods {
		if p.Ready {
			n++
		}
	}
	return n
}

// there returns how many pods there are, but for those that are going.
func (w Workload) there() (n int) {
	for _, p := range w.Pods {
		if !p.Going {
			n++
		}
	}
	return n
}

// behind returns the pods that are to be brought up to date.
func (w Workload) behind() (pods []Pod) {
	for _, p := range w.Pods {
		if p.Behind != "" && p.Cannot == "" && !p.Going {
			pods = append(pods, p)
		}
	}
	return pods
}

// controllerOf returns the owner reference of an object that says controller: true.
func controllerOf(object map[string]any) (Owner, bool) {
	u := &unstructured.Unstructured{Object: object}
	ref := metav1.GetControllerOf(u)
	if ref == nil {
		return Owner{}, false
	}
	return Owner{Namespace: u.GetNamespace(), APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}, true
}

// object is what counts of a workload of Kubernetes' own kinds.
type object struct {
	Metadata struct{ Generation int64 }
	Spec     struct {
		Replicas                 *int
		Paused                   bool
		Strategy, UpdateStrategy struct {
			Type          string
			RollingUpdate struct {
				MaxUnavailable *intstr.IntOrString
				Partition      int
			}
		}
	}
	Status struct {
		ObservedGeneration                                                           int64
		Replicas, UpdatedReplicas, AvailableReplicas, ReadyReplicas, CurrentReplicas int
		DesiredNumberScheduled, UpdatedNumberScheduled, NumberAvailable              int
		CurrentRevision, UpdateRevision                                              string
		Conditions                                                                   []struct{ Type, Reason, Message string }
	}
}

// decode reads what counts of an object that an API server sent. A field of another type is zero.
func decode(from, into any) {
	if data, err := json.Marshal(from); err == nil {
		_ = json.Unmarshal(data, into)
	}
}

// Size returns how many pods a workload of Kubernetes' own kinds wants, and how many of
// them its own rolling update may take away at once, rounded down, at least one.
func Size(kind string, from map[string]any) (desired, maxUnavailable int) {
	var o object
	decode(from, &o)
	return o.size(kind)
}

func (o object) size(kind string) (desired, maxUnavailable int) {
	desired = 1
	if o.Spec.Replicas != nil {
		desired = *o.Spec.Replicas
	}
	switch kind {
	case "DaemonSet":
		desired = o.Status.DesiredNumberScheduled
		return desired, share(o.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, desired, 1)
	case "StatefulSet":
		return desired, share(o.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, desired, 1)
	case "Deployment":
		if o.Spec.Strategy.Type != "Recreate" {
			return desired, share(o.Spec.Strategy.RollingUpdate.MaxUnavailable, desired, desired/4)
		}
	}
	return desired, 1
}

// share reads a number or a percentage of all: at least one.
func share(value *intstr.IntOrString, all, otherwise int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(value, all, false)
	if err != nil {
		n = otherwise
	}
	return max(1, n)
}

// RolledOut says why the rolling update of a Deployment, StatefulSet or DaemonSet is not at
// its end, "" if it is. Stuck reports that it will not come to its end by itself.
func RolledOut(kind string, from map[string]any) (why string, stuck bool) {
	var o object
	decode(from, &o)
	status := o.Status
	if status.ObservedGeneration < o.Metadata.Generation {
		return "its controller has not seen the change yet", false
	}
	desired, _ := o.size(kind)
	updated, available := status.UpdatedReplicas, status.AvailableReplicas
	switch kind {
	case "Deployment":
		for _, c := range status.Conditions {
			if c.Type == "Progressing" && c.Reason == "ProgressDeadlineExceeded" {
				return fmt.Sprintf("it makes no progress: %s", cmp.Or(c.Message, c.Reason)), true
			}
		}
		if old := status.Replicas - updated; old > 0 {
			return fmt.Sprintf("%d old pods are still there", old), false
		}
	case "StatefulSet":
		available = status.ReadyReplicas
		if status.CurrentRevision != status.UpdateRevision && updated < desired {
			return fmt.Sprintf("%d of %d pods are new", updated, desired), false
		}
		updated = max(updated, status.CurrentReplicas)
	case "DaemonSet":
		updated, available = status.UpdatedNumberScheduled, status.NumberAvailable
	}
	switch {
	case updated < desired:
		return fmt.Sprintf("%d of %d pods are new", updated, desired), false
	case available < desired:
		return fmt.Sprintf("%d of %d pods are available", available, desired), false
	}
	return "", false
}

// replacing reports whether a workload is a Deployment that replaces pods of another pod template.
func replacing(kind string, from map[string]any) bool {
	var o object
	decode(from, &o)
	_, stuck := RolledOut(kind, from)
	return kind == "Deployment" && !o.Spec.Paused && !stuck
}

// notRestartable says why a change of the pod template would replace no pod, "" if it would.
func notRestartable(of Owner, from map[string]any) string {
	var o object
	decode(from, &o)
	switch {
	case !of.restartable():
		return "only Deployments, StatefulSets and DaemonSets can be restarted; --evict takes the pods of every workload"
	case o.Spec.Paused:
		return "it is paused: kubectl -n " + of.Namespace + " rollout resume " + of.String()
	case o.Spec.UpdateStrategy.Type == "OnDelete":
		return "its update strategy is OnDelete, so a restart replaces no pod; use --evict"
	case o.Spec.UpdateStrategy.RollingUpdate.Partition > 0:
		return "its rolling update has a partition, so a restart replaces only some of its pods; use --evict"
	}
	return ""
}

// podOf returns what counts of a pod, but for how it stands.
func podOf(from map[string]any) Pod {
	u := &unstructured.Unstructured{Object: from}
	p := Pod{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()), Going: u.GetDeletionTimestamp() != nil}
	p.Ready = !p.Going && isReady(statusOf(from))
	return p
}

// statusOf returns the status of a pod.
func statusOf(pod map[string]any) (status corev1.PodStatus) {
	decode(pod["status"], &status)
	return status
}

func isReady(status corev1.PodStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ended reports whether nothing of the pod runs any more.
func ended(pod map[string]any) bool {
	phase, _, _ := unstructured.NestedString(pod, "status", "phase")
	return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
}
