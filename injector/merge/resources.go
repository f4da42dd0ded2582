package merge

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// A pod may have its own resources in spec.resources. The API server refuses the pod if its containers request
// more. So Pillion adds the requests of a template's containers there (podResources: Add), for each resource
// that the pod names. It computes again any value that the API server derived from the containers.

// podResources are the pod's own resources during their update.
type podResources struct {
	*merger
	before, after map[string]any // the spec without the template, and with it
	// requests and limits are the increase over the pod without the template, summed over the containers that
	// run beside the app. Init containers end before the app begins: inits is set if one of them requests more.
	requests, limits corev1.ResourceList
	inits            bool
}

func (m *merger) derivePodResources() {
	spec := podschema.ObjectOf(m.result.Pod["spec"])
	if len(podschema.ObjectOf(spec["resources"])) == 0 {
		return
	}
	p := &podResources{merger: m, before: podschema.ObjectOf(m.pod["spec"]), after: spec, requests: corev1.ResourceList{}, limits: corev1.ResourceList{}}
	if !m.template.KeepPodResources {
		p.sum()
	}
	keys := map[string]bool{"cpu": true, "memory": true}
	for _, field := range []string{"limits", "requests"} {
		for key := range p.own(field) {
			if podschema.IsPodResource(key) {
				keys[key] = true
			}
		}
	}
	limited := len(p.own("limits")) > 0
	for _, key := range sorted(keys) {
		if own, ok := podschema.ParseQuantity(p.own("limits")[key]); ok {
			p.raise("limits", key, own, p.limits, podschema.ContainerLimits)
		}
	}
	derivedBefore, derived := podschema.DerivedRequests(p.before, keys), podschema.DerivedRequests(podschema.ObjectOf(m.result.Pod["spec"]), keys)
	for _, key := range sorted(keys) {
		p.request(key, limited, derivedBefore, derived)
	}
	p.expectLimits()
}

// own returns the limits or requests that the pod sets itself.
func (p *podResources) own(field string) map[string]any {
	return podschema.ObjectOf(podschema.ObjectOf(podschema.ObjectOf(p.result.Pod["spec"])["resources"])[field])
}

// sum computes the increase over the pod without the template.
func (p *podResources) sum() {
	was := map[any]map[string]any{}
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range podschema.ListOf(p.before[list]) {
			was[podschema.ObjectOf(c)["name"]] = podschema.ObjectOf(c)
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range podschema.ListOf(p.after[list]) {
			container := podschema.ObjectOf(c)
			before := was[container["name"]]
			requests, limits := more(podschema.Requested(container), podschema.Requested(before)), more(podschema.Limited(container), podschema.Limited(before))
			if list == "initContainers" && container["restartPolicy"] != "Always" {
				p.inits = p.inits || len(requests)+len(limits) > 0
				continue
			}
			add(p.requests, requests)
			add(p.limits, limits)
		}
	}
}

// more subtracts b from a, and returns a. It changes a.
func more(a, b corev1.ResourceList) corev1.ResourceList {
	for key, q := range a {
		q.Sub(b[key])
		if a[key] = q; q.Sign() <= 0 {
			delete(a, key)
		}
	}
	return a
}

func add(sum, list corev1.ResourceList) {
	for key, q := range list {
		total := sum[key]
		total.Add(q)
		sum[key] = total
	}
}

// grown returns q plus the increase of the containers that run beside the app, or the total of all containers
// if an init container makes that larger. For a required template it returns the total, because the pod may
// have the template's containers already.
func (p *podResources) grown(key string, q resource.Quantity, beside corev1.ResourceList, total func(map[string]any) map[string]resource.Quantity) resource.Quantity {
	grown := q.DeepCopy()
	if !p.template.Required {
		grown.Add(beside[corev1.ResourceName(key)])
	}
	if p.inits || p.template.Required && !p.template.KeepPodResources {
		if all := total(p.after)[key]; all.Cmp(grown) > 0 {
			return all
		}
	}
	return grown
}

// raise writes the pod's new quantity if it is larger than the pod's own.
func (p *podResources) raise(field, key string, own resource.Quantity, beside corev1.ResourceList, total func(map[string]any) map[string]resource.Quantity) {
	at := specPath.Field("resources").Field(field).Key(key)
	grown := p.grown(key, own, beside, total)
	now := p.own(field)[key]
	if p.touched(at) || now != nil && grown.Cmp(own) <= 0 {
		return
	}
	if now == nil && p.own(field) == nil {
		made := specPath.Field("resources").Field(field)
		p.write(Write{Path: made, Effect: Created})
		p.result.Pod, _ = replaceAt(podschema.Pod(), p.result.Pod, made.Segments(), map[string]any{}).(map[string]any)
	}
	p.change(at, quantityType().Elem(), inUnitsOf(now, key, grown))
}

// request updates the request of one resource. The API server derives an absent one from the containers'
// requests, or from the pod's limit, and derives it again if it is removed.
func (p *podResources) request(key string, limited bool, before, after map[string]resource.Quantity) {
	at := specPath.Field("resources").Field("requests").Key(key)
	if p.touched(at) {
		return
	}
	now := p.own("requests")[key]
	own, named := podschema.ParseQuantity(now)
	was, had := before[key]
	will, has := after[key]
	switch isDerived := had && limited && podschema.SameQuantity(now, was); {
	case named && !isDerived:
		p.raise("requests", key, own, p.requests, podschema.ContainerRequests)
	case had && has && limited && !p.template.Required && will.Cmp(p.grown(key, was, p.requests, podschema.ContainerRequests)) < 0:
		// The API server derives less from the containers' requests if only sidecars request the resource, and
		// the pod's limit stood for the app's request.
		p.raise("requests", key, was, p.requests, podschema.ContainerRequests)
	case now == nil && has && (!had || will.Cmp(was) != 0):
		p.expect("requests", key)
	case isDerived && has && will.Cmp(was) != 0: // of a required template, too: it is derived anew
		p.change(at, quantityType().Elem(), nil)
	}
}

// expectLimits records the limits that the API server will derive from the containers' if they differ from
// those without the template.
func (p *podResources) expectLimits() {
	before, after := podschema.DerivedLimits(p.before), podschema.DerivedLimits(podschema.ObjectOf(p.result.Pod["spec"]))
	for _, key := range sorted(after) {
		was, had := before[key]
		if will := after[key]; !had || will.Cmp(was) != 0 {
			p.expect("limits", key)
		}
	}
}

// expect records a value that the API server will derive.
func (p *podResources) expect(field, key string) {
	around := specPath.Field("resources").Field(field)
	if p.touched(around.Key(key)) {
		return
	}
	if p.own(field) == nil {
		p.derived(around, nil)
	}
	p.derived(around.Key(key), nil)
}

// inUnitsOf formats a quantity like the earlier one, or else in the usual form.
func inUnitsOf(was any, key string, q resource.Quantity) string {
	q.Add(resource.Quantity{}) // drops the earlier form
	q.Format = resource.DecimalSI
	if key != string(corev1.ResourceCPU) {
		q.Format = resource.BinarySI
	}
	if _, text := was.(string); text {
		if before, ok := podschema.ParseQuantity(was); ok {
			q.Format = before.Format
		}
	}
	return q.String()
}
