package workload

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
)

// AssumedUID is the UID of owners in [Pod.Created]: no file has the UID that an API server
// will give.
const AssumedUID = "00000000-0000-4000-8000-000000000000"

// Created returns the pod that is created of p in a namespace, as the webhook sees it: with
// the owner, the labels, the volumes, the tolerations and the names that the controller of
// the workload adds. Hashes, UIDs and the time in the name of a CronJob's Job are made up,
// and the same each time. Of a kind whose controller is not known the pod template counts
// as the pod. The input is not modified.
func (p Pod) Created(namespace string) map[string]any {
	pod := runtime.DeepCopyJSON(p.Object)
	c := creation{owner: p.owner, pod: pod, metadata: object(pod, "metadata")}
	if make, ok := controllers[c.kind()]; ok {
		c.fromTemplate()
		make(&c)
	}
	if c.metadata["namespace"] == nil && namespace != "" {
		c.metadata["namespace"] = namespace
	}
	return pod
}

// controllers make pods, by their groups and kinds.
var controllers = map[string]func(*creation){
	"apps/Deployment": (*creation).deployment, "apps/ReplicaSet": func(c *creation) { c.ownedBy("apps/v1", "ReplicaSet", c.name()) },
	"apps/StatefulSet": (*creation).statefulSet, "apps/DaemonSet": (*creation).daemonSet,
	"batch/Job": func(c *creation) { c.job(c.name(), field(c.owner, "spec")) }, "batch/CronJob": (*creation).cronJob,
	"argoproj.io/Rollout":    (*creation).rollout,
	"/ReplicationController": func(c *creation) { c.ownedBy("v1", "ReplicationController", c.name()) },
}

// creation is a pod while it is made of a workload.
type creation struct {
	owner, pod, metadata map[string]any
}

// kind returns group and kind of the workload. One without an apiVersion has its usual group.
func (c *creation) kind() string {
	version, _ := c.owner["apiVersion"].(string)
	kind, _ := c.owner["kind"].(string)
	if group, _, ok := strings.Cut(version, "/"); ok {
		return group + "/" + kind
	}
	if version == "" {
		for known := range controllers {
			if strings.HasSuffix(known, "/"+kind) {
				return known
			}
		}
	}
	return "/" + kind
}

func (c *creation) name() string {
	metadata := field(c.owner, "metadata")
	if name, _ := metadata["name"].(string); name != "" {
		return name
	}
	if prefix, _ := metadata["generateName"].(string); prefix != "" {
		return prefix + (c.hash() + "bcdfg")[:5] // as long as API servers make it
	}
	return "workload"
}

// fromTemplate copies the metadata that controllers copy from a pod template.
func (c *creation) fromTemplate() {
	for key := range c.metadata {
		if key != "labels" && key != "annotations" && key != "finalizers" {
			delete(c.metadata, key)
		}
	}
}

// ownedBy sets the owner, and the beginning of the name.
func (c *creation) ownedBy(version, kind, name string) {
	uid, _ := field(c.owner, "metadata")["uid"].(string)
	if own, _ := c.owner["kind"].(string); uid == "" || own != kind {
		uid = AssumedUID
	}
	c.metadata["ownerReferences"] = []any{map[string]any{
		"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
	}}
	c.metadata["generateName"] = name + "-"
}

func (c *creation) label(key, value string) { object(c.metadata, "labels")[key] = value }

// hash stands for the hash of the pod template, which only the controller can work out. It
// is the same for an injected template, so that a second injection changes nothing.
func (c *creation) hash() string {
	kind, _ := c.owner["kind"].(string)
	name, _ := field(c.owner, "metadata")["name"].(string)
	h := fnv.New32a()
	h.Write([]byte(kind + "/" + name))
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

func (c *creation) deployment() { c.replicaSet("pod-template-hash") }

// rollout makes a pod of a Rollout of Argo Rollouts.
func (c *creation) rollout() { c.replicaSet("rollouts-pod-template-hash") }

func (c *creation) replicaSet(hashLabel string) {
	hash := c.hash()
	c.ownedBy("apps/v1", "ReplicaSet", c.name()+"-"+hash)
	c.label(hashLabel, hash)
}

func (c *creation) statefulSet() {
	set := field(c.owner, "spec")
	index := "0"
	if start, ok := field(set, "ordinals")["start"].(json.Number); ok {
		index = start.String()
	}
	name := c.name() + "-" + index
	c.ownedBy("apps/v1", "StatefulSet", c.name())
	c.metadata["name"] = name
	c.label("controller-revision-hash", c.name()+"-"+c.hash())
	c.label("statefulset.kubernetes.io/pod-name", name)
	c.label("apps.kubernetes.io/pod-index", index)
	spec := object(c.pod, "spec")
	spec["hostname"] = name
	if service, _ := set["serviceName"].(string); service != "" {
		spec["subdomain"] = service
	} else {
		delete(spec, "subdomain")
	}
	templates, _ := set["volumeClaimTemplates"].([]any)
	var volumes []any
	claimed := map[any]bool{}
	for _, item := range templates {
		claim, _ := item.(map[string]any)
		if of, ok := field(claim, "metadata")["name"].(string); ok {
			volumes = append(volumes, map[string]any{"name": of, "persistentVolumeClaim": map[string]any{"claimName": of + "-" + name}})
			claimed[of] = true
		}
	}
	own, _ := spec["volumes"].([]any)
	for _, item := range own {
		if v, _ := item.(map[string]any); !claimed[v["name"]] {
			volumes = append(volumes, item)
		}
	}
	if len(volumes) > 0 {
		spec["volumes"] = volumes
	}
}

// daemonTolerations are the taints that each pod of a DaemonSet tolerates.
var daemonTolerations = []struct{ key, effect string }{
	{"node.kubernetes.io/not-ready", "NoExecute"}, {"node.kubernetes.io/unreachable", "NoExecute"},
	{"node.kubernetes.io/disk-pressure", "NoSchedule"}, {"node.kubernetes.io/memory-pressure", "NoSchedule"},
	{"node.kubernetes.io/pid-pressure", "NoSchedule"}, {"node.kubernetes.io/unschedulable", "NoSchedule"},
	{"node.kubernetes.io/network-unavailable", "NoSchedule"},
}

// AssumedNode is the node of a DaemonSet's pod in [Pod.Created].
const AssumedNode = "node"

func (c *creation) daemonSet() {
	c.ownedBy("apps/v1", "DaemonSet", c.name())
	c.label("controller-revision-hash", c.hash())
	generation := "1"
	if n, ok := field(c.owner, "metadata")["generation"].(json.Number); ok {
		generation = n.String()
	}
	c.label("pod-template-generation", generation)
	spec := object(c.pod, "spec")
	tolerations, _ := spec["tolerations"].([]any)
	tolerations = slices.Clone(tolerations)
	for _, t := range daemonTolerations {
		if t.key == "node.kubernetes.io/network-unavailable" && spec["hostNetwork"] != true {
			continue
		}
		wanted := map[string]any{"key": t.key, "operator": "Exists", "effect": t.effect}
		if !slices.ContainsFunc(tolerations, func(have any) bool { return reflect.DeepEqual(have, any(wanted)) }) {
			tolerations = append(tolerations, wanted)
		}
	}
	spec["tolerations"] = tolerations
	fields := []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{AssumedNode}}}
	required := object(object(object(spec, "affinity"), "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution")
	required["nodeSelectorTerms"] = []any{map[string]any{"matchFields": fields}} // in place of all terms
}

func (c *creation) cronJob() {
	// The number is the time in minutes at which a Job is due.
	c.job(c.name()+"-29000000", field(c.owner, "spec", "jobTemplate", "spec"))
}

// job makes a pod of a Job of that name and spec.
func (c *creation) job(name string, job map[string]any) {
	c.ownedBy("batch/v1", "Job", name)
	uid := c.metadata["ownerReferences"].([]any)[0].(map[string]any)["uid"].(string)
	if job["manualSelector"] != true {
		labels := object(c.metadata, "labels")
		for _, l := range []struct{ key, value string }{
			{"batch.kubernetes.io/job-name", name}, {"job-name", name}, {"batch.kubernetes.io/controller-uid", uid}, {"controller-uid", uid},
		} {
			if _, ok := labels[l.key]; !ok {
				labels[l.key] = l.value
			}
		}
	}
	const tracking = "batch.kubernetes.io/job-tracking"
	finalizers, _ := c.metadata["finalizers"].([]any)
	if !slices.Contains(finalizers, any(tracking)) {
		c.metadata["finalizers"] = append(slices.Clone(finalizers), tracking)
	}
	if job["completionMode"] == "Indexed" {
		c.indexed(name)
	}
}

// indexed makes the first pod of an Indexed Job.
func (c *creation) indexed(name string) {
	const key, variable = "batch.kubernetes.io/job-completion-index", "JOB_COMPLETION_INDEX"
	c.metadata["generateName"] = name + "-0-"
	object(c.metadata, "annotations")[key] = "0"
	c.label(key, "0")
	spec := object(c.pod, "spec")
	spec["hostname"] = name + "-0"
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			container, _ := item.(map[string]any)
			env, _ := container["env"].([]any)
			if container != nil && !slices.ContainsFunc(env, func(v any) bool { m, _ := v.(map[string]any); return m["name"] == variable }) {
				container["env"] = append(slices.Clone(env), map[string]any{"name": variable, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['" + key + "']"}}})
			}
		}
	}
}

// field returns the object at a path, or a new empty object.
func field(of map[string]any, path ...string) map[string]any {
	for _, name := range path {
		of, _ = of[name].(map[string]any)
	}
	if of == nil {
		return map[string]any{}
	}
	return of
}

// object returns the object in a field. It adds an empty object if the field is absent.
func object(of map[string]any, name string) map[string]any {
	o, ok := of[name].(map[string]any)
	if !ok {
		o = map[string]any{}
		of[name] = o
	}
	return o
}
