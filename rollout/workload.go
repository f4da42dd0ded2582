package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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
func (o Owner) resource() (group, version, resource string, known bool) {
	group, version, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		group, version = "", o.APIVersion
	}
	switch {
	case group == "apps" && (o.Kind == "Deployment" || o.Kind == "StatefulSet" || o.Kind == "DaemonSet" || o.Kind == "ReplicaSet"),
		group == "" && o.Kind == "ReplicationController":
		return group, version, strings.ToLower(o.Kind) + "s", true
	}
	return group, version, "", false
}

// restartable reports whether a change of the owner's pod template replaces its pods.
func (o Owner) restartable() bool {
	_, _, resource, _ := o.resource()
	return resource == "deployments" || resource == "statefulsets" || resource == "daemonsets"
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
	namespace := text(object, "metadata", "namespace")
	for _, ref := range list(object, "metadata", "ownerReferences") {
		if r, _ := ref.(map[string]any); r["controller"] == true {
			return Owner{Namespace: namespace, APIVersion: text(r, "apiVersion"), Kind: text(r, "kind"), Name: text(r, "name")}, true
		}
	}
	return Owner{}, false
}

// Size returns how many pods a workload of Kubernetes' own kinds wants, and how many of
// them its own rolling update may take away at once, rounded down, at least one.
func Size(kind string, object map[string]any) (desired, maxUnavailable int) {
	if kind == "DaemonSet" {
		desired = number(object, "status", "desiredNumberScheduled")
		return desired, share(at(object, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable"), desired, 1)
	}
	desired = 1
	if at(object, "spec", "replicas") != nil {
		desired = number(object, "spec", "replicas")
	}
	switch kind {
	case "Deployment":
		if text(object, "spec", "strategy", "type") == "Recreate" {
			return desired, 1
		}
		return desired, share(at(object, "spec", "strategy", "rollingUpdate", "maxUnavailable"), desired, max(1, desired/4))
	case "StatefulSet":
		return desired, share(at(object, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable"), desired, 1)
	}
	return desired, 1
}

// share reads a number or a percentage of all.
func share(value any, all, otherwise int) int {
	n := otherwise
	switch v := value.(type) {
	case string:
		if percent, err := strconv.Atoi(strings.TrimSuffix(v, "%")); err == nil {
			n = all * percent / 100
		}
	case json.Number, int64, float64:
		n = asNumber(v)
	}
	return max(1, n)
}

// RolledOut says why the rolling update of a Deployment, StatefulSet or DaemonSet is not at
// its end, "" if it is. Stuck reports that it will not come to its end by itself.
func RolledOut(kind string, object map[string]any) (why string, stuck bool) {
	status := func(field string) int { return number(object, "status", field) }
	if status("observedGeneration") < number(object, "metadata", "generation") {
		return "its controller has not seen the change yet", false
	}
	desired, _ := Size(kind, object)
	updated, available := status("updatedReplicas"), status("availableReplicas")
	switch kind {
	case "Deployment":
		for _, c := range list(object, "status", "conditions") {
			if c, _ := c.(map[string]any); c["type"] == "Progressing" && c["reason"] == "ProgressDeadlineExceeded" {
				return fmt.Sprintf("it makes no progress: %s", cmp.Or(text(c, "message"), "ProgressDeadlineExceeded")), true
			}
		}
		if old := status("replicas") - updated; old > 0 {
			return fmt.Sprintf("%d old pods are still there", old), false
		}
	case "StatefulSet":
		available = status("readyReplicas")
		if text(object, "status", "currentRevision") != text(object, "status", "updateRevision") && updated < desired {
			return fmt.Sprintf("%d of %d pods are new", updated, desired), false
		}
		updated = max(updated, number(object, "status", "currentReplicas"))
	case "DaemonSet":
		updated, available = status("updatedNumberScheduled"), status("numberAvailable")
	}
	switch {
	case updated < desired:
		return fmt.Sprintf("%d of %d pods are new", updated, desired), false
	case available < desired:
		return fmt.Sprintf("%d of %d pods are available", available, desired), false
	}
	return "", false
}

// notRestartable says why a change of the pod template would replace no pod, "" if it would.
func notRestartable(o Owner, object map[string]any) string {
	switch {
	case !o.restartable():
		return "only Deployments, StatefulSets and DaemonSets can be restarted; --evict takes the pods of every workload"
	case at(object, "spec", "paused") == true:
		return "it is paused: kubectl -n " + o.Namespace + " rollout resume " + o.String()
	case text(object, "spec", "updateStrategy", "type") == "OnDelete":
		return "its update strategy is OnDelete, so a restart replaces no pod; use --evict"
	case number(object, "spec", "updateStrategy", "rollingUpdate", "partition") > 0:
		return "its rolling update has a partition, so a restart replaces only some of its pods; use --evict"
	}
	return ""
}

// at returns the value at a path of fields, nil if there is none.
func at(object map[string]any, path ...string) any {
	var v any = object
	for _, field := range path {
		m, _ := v.(map[string]any)
		v = m[field]
	}
	return v
}

func text(object map[string]any, path ...string) string {
	s, _ := at(object, path...).(string)
	return s
}

func list(object map[string]any, path ...string) []any {
	l, _ := at(object, path...).([]any)
	return l
}

func number(object map[string]any, path ...string) int { return asNumber(at(object, path...)) }

// asNumber reads a number of JSON, however it was decoded.
func asNumber(v any) int {
	switch v := v.(type) {
	case json.Number:
		n, _ := v.Int64()
		return int(n)
	case int64:
		return int(v)
	case float64:
		return int(v)
	}
	return 0
}

// podOf returns what counts of a pod, but for how it stands.
func podOf(object map[string]any) Pod {
	p := Pod{
		Namespace: text(object, "metadata", "namespace"), Name: text(object, "metadata", "name"), UID: text(object, "metadata", "uid"),
		Going: at(object, "metadata", "deletionTimestamp") != nil,
	}
	p.Ready = !p.Going && isReady(object)
	return p
}

func isReady(pod map[string]any) bool {
	for _, c := range list(pod, "status", "conditions") {
		if c, _ := c.(map[string]any); c["type"] == "Ready" {
			return c["status"] == "True"
		}
	}
	return false
}

// ended reports whether nothing of the pod runs any more.
func ended(pod map[string]any) bool {
	phase := text(pod, "status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}
