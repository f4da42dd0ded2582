package merge

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The API server derives resource requests: a container's from its limits, the
// pod's own from those of its containers, or from its own limits.

const podResourcesPath = "/spec/resources"

// noteImpliedRequests notes which requests of a container say no more than its
// limits do: those give way, as every default does.
func (m *merger) noteImpliedRequests(resources map[string]any, at place) {
	if at.keyed == podResourcesPath {
		return
	}
	limits, requests := objectOf(resources["limits"]), objectOf(resources["requests"])
	for key, limit := range limits {
		if request := requests[key]; request != nil && equal(m.quantity, limit, request) {
			m.limited[at.field("requests").field(key).keyed] = true
		}
		// What a template overwrote said it before.
		request := at.field("requests").field(key).keyed
		if original := m.originals[at.field("limits").field(key).keyed]; original != nil {
			limit = original
		}
		if was := m.originals[request]; was != nil && equal(m.quantity, limit, was) {
			m.limited[request] = true
		}
	}
}

// expectRequests lists, with the limits that the template added to resources,
// the requests that the API server derives from them.
func (m *merger) expectRequests(resources map[string]any, at place) {
	if at.keyed == podResourcesPath {
		return // settlePodRequests does it when all containers are known
	}
	limits, _ := resources["limits"].(map[string]any)
	requests, _ := resources["requests"].(map[string]any)
	limitsAt, requestsAt := at.field("limits").keyed, at.field("requests").keyed
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		if requests[key] != nil || !m.record.lists(join(limitsAt, key)) {
			continue
		}
		if resources["requests"] == nil {
			m.create(requestsAt)
		}
		m.list(join(requestsAt, key))
		m.sign(m.quantity, join(requestsAt, key), limits[key])
	}
}

// followLimits keeps requests that were derived from a limit in step with what
// the template put in the limit's place. Above the new limit they would be
// refused.
func (m *merger) followLimits(resources *object, at place) {
	limits := objectOf(resources.fields["limits"])
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		limitAt, requestAt := at.field("limits").field(key), at.field("requests").field(key)
		c, claimed := m.claims[limitAt.keyed]
		original := m.originals[limitAt.keyed]
		if !claimed || !c.wrote || c.template != m.frag.Template || original == nil || !m.limited[requestAt.keyed] {
			continue
		}
		if _, wanted := m.claims[requestAt.keyed]; wanted || m.owners[requestAt.keyed] != "" {
			continue
		}
		requests, ok := resources.object("requests")
		if !ok || requests.fields[key] == nil || !equal(m.quantity, requests.fields[key], original) {
			continue
		}
		m.noteOriginal(requestAt.keyed, requests.fields[key])
		m.set(requests, key, requestAt, limits[key])
		m.sign(m.quantity, requestAt.keyed, limits[key])
	}
}

// settlePodRequests does what the templates' containers and limits make
// necessary in the requests of the pod as a whole. What the API server had made
// of others than there are now goes: it makes them anew, and would refuse what
// is too little. What it will make where there was none is listed.
func (m *merger) settlePodRequests(came map[string]any) {
	spec, ok := m.root.object("spec")
	r := m.lastTraced()
	if !ok || r == nil {
		return
	}
	resources := objectOf(spec.fields["resources"])
	keys := map[string]bool{"cpu": true, "memory": true}
	for key := range objectOf(resources["limits"]) {
		keys[key] = true
	}
	requests := objectOf(resources["requests"])
	at := place{}.field("spec").field("resources").field("requests")
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		here, stands := at.field(key), requests[key]
		if _, wanted := m.claims[here.keyed]; wanted || m.owners[here.keyed] != "" {
			continue
		}
		was, had := derivedRequest(objectOf(came["spec"]), key)
		will, has := derivedRequest(spec.fields, key)
		m.record = r
		switch {
		case !has:
		case stands == nil && !had:
			if requests == nil {
				m.create(at.keyed)
			}
			m.list(here.keyed)
		case had && sameQuantity(stands, was) && will.Cmp(was) != 0:
			o, _ := spec.object("resources")
			o, _ = o.object("requests")
			m.noteOriginal(here.keyed, o.fields[key])
			m.unset(o, key, here)
		}
	}
}

// derivedRequest is the request that the API server gives a pod as a whole, if
// the pod has limits as a whole: what its containers request, or else its limit.
func derivedRequest(spec map[string]any, key string) (q resource.Quantity, ok bool) {
	limits := objectOf(objectOf(spec["resources"])["limits"])
	if len(limits) == 0 {
		return q, false
	}
	if sum, some := containerRequests(spec, key); some {
		return sum, true
	}
	return quantityOf(limits[key])
}

// lastTraced is the record that what no template asks for by itself goes to.
func (m *merger) lastTraced() *record {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(m.records))) {
		if r := m.records[name]; m.merged[name] && r.trace() {
			return r
		}
	}
	return nil
}

func sameQuantity(v any, q resource.Quantity) bool {
	other, ok := quantityOf(v)
	return ok && other.Cmp(q) == 0
}

func quantityOf(v any) (resource.Quantity, bool) {
	text, ok := canonicalQuantity(v)
	if !ok {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// containerRequests is what the containers of a pod's spec request in sum: app
// containers and sidecars together, or more if an init container does. It is
// false if none requests any.
func containerRequests(spec map[string]any, key string) (sum resource.Quantity, some bool) {
	request := func(item any) (resource.Quantity, bool) {
		resources := objectOf(objectOf(item)["resources"])
		v := objectOf(resources["requests"])[key]
		if v == nil {
			v = objectOf(resources["limits"])[key]
		}
		return quantityOf(v)
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
