package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pillion-dev/pillion/injector/owner"
)

// Owner is the workload that replaces a pod when it is restarted.
type Owner struct {
	Namespace, Kind, Name string
}

// String formats the owner for kubectl, such as deployment/web.
func (o Owner) String() string { return strings.ToLower(o.Kind) + "/" + o.Name }

func (o Owner) compare(p Owner) int {
	return cmp.Or(strings.Compare(o.Namespace, p.Namespace), strings.Compare(o.Kind, p.Kind), strings.Compare(o.Name, p.Name))
}

// ownerOf returns the workload of a pod, or the pod itself if it has no controller.
func ownerOf(pod map[string]any) Owner {
	u, w := &unstructured.Unstructured{Object: pod}, owner.WorkloadOf(pod)
	if w.Kind == "" {
		w = owner.Workload{Kind: "Pod", Name: u.GetName()}
	}
	return Owner{Namespace: u.GetNamespace(), Kind: w.Kind, Name: w.Name}
}

// resource returns the API resource of the owner. It returns false for a kind that cannot be
// restarted.
func (o Owner) resource() (owner.Resource, bool) {
	i := slices.IndexFunc(owner.Kinds, func(k owner.Resource) bool { return k.Kind == o.Kind && k.Restarts })
	if i < 0 {
		return owner.Resource{}, false
	}
	return owner.Kinds[i], true
}

// unreachableReason returns the reason why a restart does not replace a pod of the owner, or "".
// permanent reports whether no workload replaces the pod at all.
func (o Owner) unreachableReason() (why string, lasting bool) {
	switch _, restarts := o.resource(); {
	case restarts:
		return "", false
	case o.Kind == "Pod":
		return "no controller replaces it: delete it and create it again", true
	case o.Kind == "Job" || o.Kind == "CronJob":
		return "the Job's work would start again: its next run gets the templates in force", true
	case o.Kind == "Node":
		return "the node runs it by itself", true
	}
	return fmt.Sprintf("only Deployments, StatefulSets and DaemonSets can be restarted: delete its pods one after the other, kubectl -n %s delete pod NAME", o.Namespace), false
}

// object has the fields of a workload that a rollout reads.
type object struct {
	Metadata struct{ Generation int64 }
	Spec     struct {
		Replicas       *int
		Paused         bool
		UpdateStrategy struct {
			Type          string
			RollingUpdate struct{ Partition int }
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

// decode reads an object that an API server sent. A field of another type is zero.
func decode(from, into any) {
	if data, err := json.Marshal(from); err == nil {
		_ = json.Unmarshal(data, into)
	}
}

// restartObstacle returns the reason why a change of the pod template does not replace all pods of
// the owner, or "".
func restartObstacle(o Owner, from map[string]any) string {
	var is object
	decode(from, &is)
	switch {
	case is.Spec.Paused:
		return fmt.Sprintf("it is paused: kubectl -n %s rollout resume %s", o.Namespace, o)
	case is.Spec.UpdateStrategy.Type == "OnDelete":
		return fmt.Sprintf("its update strategy is OnDelete, so a restart replaces no pod: delete its pods one after the other, kubectl -n %s delete pod NAME", o.Namespace)
	case o.Kind == "Deployment" && is.Status.ObservedGeneration >= is.Metadata.Generation && is.Status.Replicas > is.Status.UpdatedReplicas:
		return fmt.Sprintf("its pods are being replaced already, and %d of older ReplicaSets are still there: kubectl -n %s rollout status %s", is.Status.Replicas-is.Status.UpdatedReplicas, o.Namespace, o)
	case is.Spec.UpdateStrategy.RollingUpdate.Partition > 0:
		return "its rolling update has a partition, so a restart replaces only some of its pods: take spec.updateStrategy.rollingUpdate.partition away"
	}
	return ""
}

// RolledOut returns the reason why the rolling update of a Deployment, StatefulSet or DaemonSet is
// not complete, or "". stuck reports whether it cannot complete by itself.
func RolledOut(kind string, from map[string]any) (why string, stuck bool) {
	var is object
	decode(from, &is)
	status, desired := is.Status, 1
	if is.Spec.Replicas != nil {
		desired = *is.Spec.Replicas
	}
	if status.ObservedGeneration < is.Metadata.Generation {
		return "its controller has not seen the change yet", false
	}
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
		if status.CurrentRevision == status.UpdateRevision {
			updated = max(updated, status.CurrentReplicas)
		}
	case "DaemonSet":
		desired, updated, available = status.DesiredNumberScheduled, status.UpdatedNumberScheduled, status.NumberAvailable
	}
	switch {
	case updated < desired:
		return fmt.Sprintf("%d of %d pods are new", updated, desired), false
	case available < desired:
		return fmt.Sprintf("%d of %d pods are available", available, desired), false
	}
	return "", false
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
