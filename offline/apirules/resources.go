package apirules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resources "k8s.io/component-helpers/resource"
)

// resources checks what one container asks for.
func (c *checker) resources(r corev1.ResourceRequirements, at *field.Path) {
	for part, list := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
		for name, quantity := range list {
			at := at.Child(part).Key(string(name))
			if quantity.Cmp(resource.Quantity{}) < 0 {
				c.add(field.Invalid(at, quantity.String(), "must be greater than or equal to 0"))
			}
			if !strings.Contains(string(name), "/") && !isContainerResource(name) {
				c.add(field.Invalid(at, string(name), "must be a standard resource for containers"))
			}
		}
	}
	for name, request := range r.Requests {
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			c.within(string(name), field.Invalid(at.Child("requests").Key(string(name)), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
}

func isContainerResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// sums checks what all containers ask for against spec.resources. Where a pod has only a
// limit there, the API server makes a request of it, which a pod that was not created yet
// does not have.
func (c *checker) sums(pod *corev1.Pod, at *field.Path) {
	all := pod.Spec.Resources
	if all == nil {
		return
	}
	asked := resources.AggregateContainerRequests(WithRequests(pod), resources.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		sum := asked[name]
		if request, ok := all.Requests[name]; ok && sum.Cmp(request) > 0 {
			c.whole(string(name), field.Invalid(at.Child("requests").Key(string(name)), request.String(), "must be greater than or equal to aggregate container requests of "+sum.String()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all.Requests)) {
		request := all.Requests[name]
		if limit, ok := all.Limits[name]; ok && request.Cmp(limit) > 0 {
			c.whole(string(name), field.Invalid(at.Child("requests").Key(string(name)), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	for _, container := range pod.Spec.Containers {
		c.container = container.Name
		for name, limit := range container.Resources.Limits {
			if most, ok := all.Limits[name]; ok && limit.Cmp(most) > 0 {
				path := field.NewPath("spec", "containers").Key(container.Name).Child("resources", "limits").Key(string(name))
				c.whole(string(name), field.Invalid(path, limit.String(), "must be less than or equal to pod limits of "+most.String()))
			}
		}
	}
	c.container = ""
}

// WithRequests returns a pod in which each container with a limit and no request has the
// limit as its request, as the API server sets it. The pod shares what does not change.
func WithRequests(pod *corev1.Pod) *corev1.Pod {
	fill := func(containers []corev1.Container) []corev1.Container {
		containers = slices.Clone(containers)
		for i := range containers {
			r := &containers[i].Resources
			if requests := maps.Clone(r.Limits); requests != nil {
				maps.Copy(requests, r.Requests)
				r.Requests = requests
			}
		}
		return containers
	}
	filled := *pod
	filled.Spec.InitContainers, filled.Spec.Containers = fill(pod.Spec.InitContainers), fill(pod.Spec.Containers)
	return &filled
}
