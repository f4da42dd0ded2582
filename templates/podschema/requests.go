package podschema

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// DerivedRequests are the requests of the given resources that the API server gives
// to a pod as a whole (spec.resources.requests) where the pod has limits as a whole:
// the sum of its containers' requests, or else its limit. Resources for which the API
// server derives nothing are not in it.
func DerivedRequests(spec map[string]any, keys map[string]bool) map[string]resource.Quantity {
	limits := objectOf(objectOf(spec["resources"])["limits"])
	if len(limits) == 0 {
		return nil
	}
	derived := ContainerRequests(spec)
	for key := range derived {
		if !keys[key] {
			delete(derived, key)
		}
	}
	for key := range keys {
		if _, some := derived[key]; some {
			continue
		}
		if q, ok := ParseQuantity(limits[key]); ok {
			derived[key] = q
		}
	}
	return derived
}

// ContainerRequests is the sum that the containers of a pod's spec request of each
// resource: app containers and sidecars together, or more if an init container does
// (KEP-753). Resources that no container requests are not in it.
func ContainerRequests(spec map[string]any) map[string]resource.Quantity {
	sums := map[string]*sum{}
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		eachRequest(c, sums, func(s *sum, q resource.Quantity) { s.together.Add(q) })
	}
	inits, _ := spec["initContainers"].([]any)
	for _, c := range inits {
		isSidecar := objectOf(c)["restartPolicy"] == "Always"
		eachRequest(c, sums, func(s *sum, q resource.Quantity) {
			beside := q.DeepCopy()
			beside.Add(s.sidecars)
			if isSidecar {
				s.together.Add(q)
				s.sidecars = beside
			}
			if beside.Cmp(s.most) > 0 {
				s.most = beside
			}
		})
	}
	requests := make(map[string]resource.Quantity, len(sums))
	for key, s := range sums {
		if requests[key] = s.together; s.most.Cmp(s.together) > 0 {
			requests[key] = s.most
		}
	}
	return requests
}

// sum is what containers request of one resource: app containers and sidecars
// together, the sidecars so far, and the most while one init container runs.
type sum struct{ together, sidecars, most resource.Quantity }

// eachRequest gives each request of a container, or the limit that stands for it, to
// the sum of its resource.
func eachRequest(container any, sums map[string]*sum, add func(*sum, resource.Quantity)) {
	resources := objectOf(objectOf(container)["resources"])
	requests, limits := objectOf(resources["requests"]), objectOf(resources["limits"])
	one := func(key string, v any) {
		q, ok := ParseQuantity(v)
		if !ok {
			return
		}
		if sums[key] == nil {
			sums[key] = &sum{}
		}
		add(sums[key], q)
	}
	for key, v := range requests {
		if v != nil {
			one(key, v)
		}
	}
	for key, v := range limits {
		if requests[key] == nil {
			one(key, v)
		}
	}
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
