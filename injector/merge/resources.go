package merge

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// The API server derives resource requests: a container's from its limits, the
// pod's own from those of its containers, or from its own limits.

// noteImpliedRequests notes which requests of a container say no more than its
// limits do: those give way, as every default does.
func (d *derivation) noteImpliedRequests(resources map[string]any, at *place) {
	if at.is("spec", "resources") || at.owner != "" {
		return
	}
	limits, requests := objectOf(resources["limits"]), objectOf(resources["requests"])
	for key := range requests {
		limitAt, requestAt := at.field("limits").field(key), at.field("requests").field(key)
		limit := d.baseAt(limitAt, limits[key])
		request := d.baseAt(requestAt, requests[key])
		if limit != nil && request != nil && podschema.Equal(quantityType(), limit, request) {
			d.limited[requestAt.note()] = true
		}
	}
}

// baseAt returns what the base pod has at the place of a quantity, where the
// wanted pod has v.
func (d *derivation) baseAt(at *place, v any) any {
	if n := at.find(); n.ours() || n.gone() {
		return n.was
	}
	return v
}

// expectRequests notes, with the limits that a template added to resources, the
// requests that the API server derives from them.
func (d *derivation) expectRequests(resources map[string]any, at *place) {
	if at.is("spec", "resources") || at.owner != "" {
		return // settlePodRequests does it when all containers are known
	}
	limits, requests := objectOf(resources["limits"]), objectOf(resources["requests"])
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		n := at.field("limits").field(key).find()
		if requests[key] != nil || !n.Writes() || n.was != nil {
			continue
		}
		if resources["requests"] == nil {
			made := at.field("requests").note()
			made.put(Expect, nil)
			made.by(d.template)
		}
		derived := at.field("requests").field(key).note()
		if derived.asked() {
			continue
		}
		derived.put(Expect, nil)
		derived.expected = limits[key]
		derived.by(d.template)
	}
}

// reached are the resources of a container that a template came by.
type reached struct {
	resources *object
	at        *place
}

// noteResources notes resources whose requests may have to follow their limits.
func (d *derivation) noteResources(resources *object, at *place) {
	if at.owner == "" {
		d.reached = append(d.reached, reached{resources, at})
	}
}

// followLimits keeps requests that were derived from a limit in step with the
// limit that a template put in its place. Above the new limit they would be
// refused. It comes when all templates are merged: a request that a template wants
// goes before one that follows.
func (d *derivation) followLimits() {
	for _, r := range d.reached {
		limits := objectOf(r.resources.fields["limits"])
		for _, key := range slices.Sorted(maps.Keys(limits)) {
			d.followLimit(r, key, limits[key])
		}
	}
}

func (d *derivation) followLimit(r reached, key string, wanted any) {
	limit, request := r.at.field("limits").field(key).find(), r.at.field("requests").field(key).find()
	if !limit.Writes() || limit.was == nil || request == nil || request.asked() || !d.limited[request] {
		return
	}
	requests, ok := r.resources.object("requests")
	if !ok || requests.fields[key] == nil || !podschema.Equal(quantityType(), requests.fields[key], limit.was) {
		return
	}
	request.put(Write, requests.fields[key])
	request.claim(limit.Templates[0], quantityType(), wanted, false)
	requests.put(key, wanted)
}

// lastTemplate is the template that stands for what no template asks for by
// itself: the last one that gives something to the pod.
func (d *derivation) lastTemplate() string {
	last := ""
	d.changes.walk(func(c *Change) {
		if c.Do != Nothing {
			for _, name := range c.Templates {
				last = max(last, name)
			}
		}
	})
	return last
}
