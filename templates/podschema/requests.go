package podschema

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// DerivedRequest is the request of a resource that the API server gives to a
// pod as a whole (spec.resources.requests) where the pod has limits as a whole:
// the sum of its containers' requests, or else its limit. It reports false
// where the API server derives nothing.
func DerivedRequest(spec map[string]any, key string) (q resource.Quantity, ok bool) {
	limits := objectOf(objectOf(spec["resources"])["limits"])
	if len(limits) == 0 {
		return q, false
	}
	if sum, some := ContainerRequests(spec, key); some {
		return sum, true
	}
	return ParseQuantity(limits[key])
}

// ContainerRequests is the sum that the containers of a pod's spec request: app
// containers and sidecars together, or more if an init container does (KEP-753).
// It reports false if no container requests any.
func ContainerRequests(spec map[string]any, key string) (sum resource.Quantity, some bool) {
	request := func(item any) (resource.Quantity, bool) {
		resources := objectOf(objectOf(item)["resources"])
		v := objectOf(resources["requests"])[key]
		if v == nil {
			v = objectOf(resources["limits"])[key]
		}
		return ParseQuantity(v)
	}
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		if q, ok := request(c); ok {
			sum.Add(q)
			some = true
		}
	}
	var sidecars, most resource.Quantity
	inits, _ := spec["initContainers"].([]any)
	for _, c := range inits {
		q, ok := request(c)
		some = some || ok
		q.Add(sidecars)
		if objectOf(c)["restartPolicy"] == "Always" {
			own, _ := request(c)
			sum.Add(own)
			sidecars = q
		}
		if q.Cmp(most) > 0 {
			most = q
		}
	}
	if most.Cmp(sum) > 0 {
		return most, some
	}
	return sum, some
}

// ParseQuantity reads a quantity that is written as text or as a number.
func ParseQuantity(v any) (resource.Quantity, bool) {
	text, ok := Quantity(v)
	if !ok {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// SameQuantity reports whether v is a quantity equal to q.
func SameQuantity(v any, q resource.Quantity) bool {
	other, ok := ParseQuantity(v)
	return ok && other.Cmp(q) == 0
}

func objectOf(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}
