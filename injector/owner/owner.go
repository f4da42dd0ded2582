// Package owner has the table of the kinds that create pods, and finds the workload of a pod.
//
// In: a pod as JSON. Out: its controller and its workload, by the pod's own metadata. The package reads nothing
// from a cluster. May import: k8s.io/apimachinery. No package of this module.
package owner

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is one of Kubernetes' own kinds that create pods.
type Resource struct {
	schema.GroupVersionResource
	// Kind is the kind's name, Short kubectl's short name of the resource.
	Kind, Short string
	// Written is set if people write objects of the kind. Objects of the other kinds mostly have an owner.
	Written bool
	// Restarts is set if kubectl rollout restart replaces the pods.
	Restarts bool
}

// Kinds are in the order of ownership: a Deployment comes before the ReplicaSet that its controller creates.
var Kinds = []Resource{
	{resource("apps", "deployments"), "Deployment", "deploy", true, true},
	{resource("apps", "statefulsets"), "StatefulSet", "sts", true, true},
	{resource("apps", "daemonsets"), "DaemonSet", "ds", true, true},
	{resource("apps", "replicasets"), "ReplicaSet", "rs", false, false},
	{resource("", "replicationcontrollers"), "ReplicationController", "rc", false, false},
	{resource("batch", "cronjobs"), "CronJob", "cj", true, false},
	{resource("batch", "jobs"), "Job", "job", true, false},
}

// CreatesPods reports whether the kind's controller creates the pods itself.
func (k Resource) CreatesPods() bool { return k.Kind != "Deployment" && k.Kind != "CronJob" }

func resource(group, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
}

// TemplatePath returns the path of the pod template in a kind.
func TemplatePath(kind string) []string {
	if kind == "CronJob" {
		return []string{"spec", "jobTemplate", "spec", "template"}
	}
	return []string{"spec", "template"}
}

// Of returns the kind of an owner reference.
func Of(apiVersion, kind string) (Resource, bool) {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group = ""
	}
	for _, k := range Kinds {
		if k.Group == group && k.Kind == kind {
			return k, true
		}
	}
	return Resource{}, false
}

// Reference is an owner reference with controller: true.
type Reference struct{ APIVersion, Kind, Name, UID string }

// Controller returns the controller of a pod. It reports false if the pod has none.
func Controller(pod map[string]any) (Reference, bool) {
	metadata, _ := pod["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	for _, item := range owners {
		owner, _ := item.(map[string]any)
		if controller, _ := owner["controller"].(bool); controller {
			text := func(key string) string { s, _ := owner[key].(string); return s }
			return Reference{APIVersion: text("apiVersion"), Kind: text("kind"), Name: text("name"), UID: text("uid")}, true
		}
	}
	return Reference{}, false
}

// Workload is the object that a person restarts to get new pods.
type Workload struct {
	// Kind is empty for a pod without a controller.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// String writes the workload as kubectl does.
func (w Workload) String() string {
	if w.Kind == "" {
		return "bare pods"
	}
	return strings.ToLower(w.Kind) + "/" + w.Name
}

// hashLabels are the pods' labels with the hash at the end of their ReplicaSet's name, by the kind that owns
// the ReplicaSet.
var hashLabels = []struct{ kind, label string }{
	{"Deployment", "pod-template-hash"},
	{"Rollout", "rollouts-pod-template-hash"}, // of Argo Rollouts
}

// WorkloadOf returns the workload of a pod. It derives a Deployment's or Rollout's name from its ReplicaSet's,
// by removing the hash that the pod's label has.
func WorkloadOf(pod map[string]any) Workload {
	of, _ := Controller(pod)
	metadata, _ := pod["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	for _, makes := range hashLabels {
		if hash, _ := labels[makes.label].(string); of.Kind == "ReplicaSet" && hash != "" {
			if name, ok := strings.CutSuffix(of.Name, "-"+hash); ok {
				return Workload{makes.kind, name}
			}
		}
	}
	return Workload{of.Kind, of.Name}
}

// Superseded reports whether a Deployment replaces the pods of one of its ReplicaSets, because their pod
// templates differ. Source: FindNewReplicaSet in k8s.io/kubernetes/pkg/controller/deployment/util.
func Superseded(deployment, replicaSet map[string]any) bool {
	return !reflect.DeepEqual(templateOf(deployment), templateOf(replicaSet))
}

// templateOf returns the pod template of a Deployment or a ReplicaSet, without the label with the ReplicaSet's
// hash.
func templateOf(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	metadata, _ := template["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	template, metadata, labels = maps.Clone(template), maps.Clone(metadata), maps.Clone(labels)
	if delete(labels, "pod-template-hash"); metadata != nil {
		metadata["labels"], template["metadata"] = labels, metadata
	}
	return template
}

// jobTime matches the end of the names of a CronJob's Jobs: the scheduled time in minutes since 1970. Source:
// getJobName in k8s.io/kubernetes/pkg/controller/cronjob.
var jobTime = regexp.MustCompile(`-[0-9]{8}$`)

// generated matches the end of a name that the API server makes from a generateName. Source:
// simpleNameGenerator in k8s.io/apiserver/pkg/storage/names.
var generated = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

// Topmost returns the workload at the top of a pod's owners, as far as the pod tells: a CronJob for a Job whose
// name ends in a time, and the pod itself for a pod without a controller. A generateName counts without its
// last dash, because the name is not yet known at admission. So does the prefix of an owner's generated name.
// Topmost returns an empty name for a pod template, because the owner of its pods is unknown.
func Topmost(pod map[string]any) Workload {
	w := WorkloadOf(pod)
	switch w.Kind {
	case "":
		metadata, _ := pod["metadata"].(map[string]any)
		w.Kind = "Pod"
		generated, _ := metadata["generateName"].(string)
		if w.Name = strings.TrimSuffix(generated, "-"); w.Name == "" {
			w.Name, _ = metadata["name"].(string)
		}
		return w
	case "Job":
		if name := jobTime.ReplaceAllString(w.Name, ""); name != w.Name {
			w = Workload{"CronJob", name}
		}
	}
	w.Name = generated.ReplaceAllString(w.Name, "")
	return w
}

// Share returns the place of a workload among all, 0 to 99. A share of n percent has the workloads with a place
// below n, so a larger share contains a smaller one.
func Share(namespace string, w Workload) int {
	sum := sha256.Sum256([]byte(namespace + "/" + w.Kind + "/" + w.Name))
	return int(binary.BigEndian.Uint64(sum[:8]) % 100)
}
