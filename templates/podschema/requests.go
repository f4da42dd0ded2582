package podschema

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// DerivedRequests returns the requests that the API server derives for a pod as a whole if it sets none: the
// sum of its containers' requests, or else the pod's limits. It derives them only for a pod with limits or
// requests of its own. Up to Kubernetes 1.36 only limits count, and webhooks see the derived requests; from
// 1.37 on the API server derives them after webhooks (feature gate PodLevelResourcesFixDefaulting). Keys
// selects the resources.
func DerivedRequests(spec map[string]any, keys map[string]bool) map[string]resource.Quantity {
	limits := ObjectOf(ObjectOf(spec["resources"])["limits"])
	if len(limits)+len(ObjectOf(ObjectOf(spec["resources"])["requests"])) == 0 {
		return nil
	}
	derived := map[string]resource.Quantity{}
	sums := ContainerRequests(spec)
	for key := range keys {
		if q, some := sums[key]; some && !isHugePages(key) {
			derived[key] = q
		} else if q, ok := ParseQuantity(limits[key]); ok {
			derived[key] = q
		}
	}
	return derived
}

// DerivedLimits returns the limits that the API server from Kubernetes 1.37 on derives for a pod as a whole if
// it sets none: the sum of its containers' limits if all of them have one, or the pod's request if that is
// larger. Huge pages need one container with a limit; 1.36 derives them, too.
func DerivedLimits(spec map[string]any) map[string]resource.Quantity {
	limits, requests := ObjectOf(ObjectOf(spec["resources"])["limits"]), ObjectOf(ObjectOf(spec["resources"])["requests"])
	if len(limits)+len(requests) == 0 {
		return nil
	}
	limited, containers := map[string]int{}, 0
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range ListOf(spec[list]) {
			containers++
			for key := range ObjectOf(ObjectOf(ObjectOf(c)["resources"])["limits"]) {
				if limits[key] == nil && IsPodResource(key) {
					limited[key]++
				}
			}
		}
	}
	keys := map[string]bool{}
	for key, n := range limited {
		if n == containers || isHugePages(key) && requests[key] == nil {
			keys[key] = true
		}
	}
	if len(keys) == 0 {
		return nil
	}
	made, sums, derived := DerivedRequests(spec, keys), ContainerLimits(spec), map[string]resource.Quantity{}
	for key := range keys {
		request, requested := ParseQuantity(requests[key])
		if !requested {
			request = made[key]
		}
		if derived[key] = sums[key]; request.Cmp(derived[key]) > 0 {
			derived[key] = request
		}
	}
	return derived
}

// IsPodResource reports whether a pod as a whole can have requests and limits of a
// resource.
func IsPodResource(key string) bool {
	return resourcehelper.IsSupportedPodLevelResource(corev1.ResourceName(key))
}

// Huge pages cannot be overcommitted: their request is their limit.
func isHugePages(key string) bool {
	return strings.HasPrefix(key, corev1.ResourceHugePagesPrefix)
}

// ContainerRequests returns the requests of a pod's containers for each resource, as the API server sums them
// up: app containers and sidecars together, or more if an init container requests more (KEP-753). An absent
// request equals the limit. The result lacks resources that no container requests.
func ContainerRequests(spec map[string]any) map[string]resource.Quantity {
	return sumOf(spec, Requested)
}

// ContainerLimits is [ContainerRequests] for limits. An absent limit equals the request.
func ContainerLimits(spec map[string]any) map[string]resource.Quantity { return sumOf(spec, Limited) }

func sumOf(spec map[string]any, of func(container map[string]any) corev1.ResourceList) map[string]resource.Quantity {
	asRequests := func(container map[string]any) (corev1.ResourceRequirements, error) {
		return corev1.ResourceRequirements{Requests: of(container)}, nil
	}
	pod := &corev1.Pod{}
	pod.Spec.Containers, _ = Containers(spec["containers"], asRequests)
	pod.Spec.InitContainers, _ = Containers(spec["initContainers"], asRequests)
	sums := map[string]resource.Quantity{}
	for key, q := range resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}) {
		sums[string(key)] = q
	}
	return sums
}

// Containers returns the parts of a list of containers that count for a pod's resources. It returns the error
// of resources.
func Containers(list any, resources func(container map[string]any) (corev1.ResourceRequirements, error)) ([]corev1.Container, error) {
	always := corev1.ContainerRestartPolicyAlways
	var containers []corev1.Container
	for _, c := range ListOf(list) {
		takes, err := resources(ObjectOf(c))
		if err != nil {
			return nil, err
		}
		container := corev1.Container{Resources: takes}
		if ObjectOf(c)["restartPolicy"] == "Always" {
			container.RestartPolicy = &always
		}
		containers = append(containers, container)
	}
	return containers, nil
}

// Requested returns the requests of a container for each resource. An absent request equals the limit.
func Requested(container map[string]any) corev1.ResourceList {
	resources := ObjectOf(container["resources"])
	return either(ObjectOf(resources["requests"]), ObjectOf(resources["limits"]))
}

// Limited returns the limits of a container. An absent limit equals the request.
func Limited(container map[string]any) corev1.ResourceList {
	resources := ObjectOf(container["resources"])
	return either(ObjectOf(resources["limits"]), ObjectOf(resources["requests"]))
}

func either(first, second map[string]any) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, from := range []map[string]any{second, first} {
		for key, v := range from {
			if q, ok := ParseQuantity(v); ok {
				list[corev1.ResourceName(key)] = q
			}
		}
	}
	return list
}

// SameQuantity reports whether v is a quantity equal to q.
func SameQuantity(v any, q resource.Quantity) bool {
	other, ok := ParseQuantity(v)
	return ok && other.Cmp(q) == 0
}

// ObjectOf returns v if it is an object, else nil.
func ObjectOf(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

// ListOf returns v if it is a list, else nil.
func ListOf(v any) []any {
	list, _ := v.([]any)
	return list
}

// ObjectsIn returns the objects in a list of an object.
func ObjectsIn(object map[string]any, list string) []map[string]any {
	var objects []map[string]any
	for _, v := range ListOf(object[list]) {
		if o, ok := v.(map[string]any); ok {
			objects = append(objects, o)
		}
	}
	return objects
}
