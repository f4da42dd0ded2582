package merge

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// A pod may have resources as a whole, spec.resources. The API server refuses it if its
// containers ask for more than that. So what the templates' containers ask for is
// added there (podResources: Add), for each resource that the pod names.

// asking is what the templates gave one container of the wanted pod, and what it asks for
// more than the base pod's.
type asking struct {
	container map[string]any
	// runs: it runs beside the app, as app container or native sidecar. Another init
	// container is over when the app begins.
	runs, app        bool
	templates        []string
	adds             bool // a template of them says Add
	requests, limits corev1.ResourceList
}

// settlePodResources brings the resources of the pod as a whole up to what the templates'
// containers and limits make necessary. Its error is a [*ResourcesError].
func (m *merger) settlePodResources(fragments []Fragment) error {
	spec, ok := m.root.object("spec")
	if !ok || len(objectOf(spec.fields["resources"])) == 0 {
		return nil
	}
	p := podResources{derivation: m.derived, spec: spec, parts: m.parts(spec.fields, fragments)}
	if p.last = m.derived.lastTemplate(); p.last == "" {
		return nil
	}
	p.addLimits()
	p.addRequests()
	p.expectLimits()
	return p.check(objectOf(m.base["spec"]))
}

// parts returns what the templates gave to containers.
func (m *merger) parts(spec map[string]any, fragments []Fragment) []asking {
	keeps := map[string]bool{}
	for _, f := range fragments {
		keeps[f.Template] = f.KeepPodResources
	}
	var parts []asking
	for _, list := range []string{"containers", "initContainers"} {
		changed := m.changes.Child("spec").Child(list)
		if !changed.Edits() {
			continue
		}
		id, _ := podschema.At("spec." + list).Identity()
		was := map[string]any{}
		before, _ := objectOf(m.base["spec"])[list].([]any)
		for _, c := range before {
			if key, ok := id.Key(c); ok {
				was[key] = c
			}
		}
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			key, _ := id.Key(c)
			change := changed.Child(key)
			if changed.Writes() {
				change = changed // another list in the place of the pod's
			} else if !change.Writes() {
				if change = change.Child("resources"); !change.Edits() {
					continue
				}
			}
			container := objectOf(c)
			one := asking{
				container: container, runs: list == "containers" || container["restartPolicy"] == "Always", app: list == "containers", templates: change.wanting(nil),
				requests: more(podschema.Requested(container), podschema.Requested(objectOf(was[key]))),
				limits:   more(podschema.Limited(container), podschema.Limited(objectOf(was[key]))),
			}
			one.adds = slices.ContainsFunc(one.templates, func(name string) bool { return !keeps[name] })
			parts = append(parts, one)
		}
	}
	return parts
}

// wanting adds the templates that want c, or something in it, to names.
func (c *Change) wanting(names []string) []string {
	c.walk(func(c *Change) {
		for _, name := range c.Templates {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	})
	slices.Sort(names)
	return names
}

// more returns what is in a and not in b. It changes a.
func more(a, b corev1.ResourceList) corev1.ResourceList {
	for key, q := range a {
		q.Sub(b[key])
		if a[key] = q; q.Sign() <= 0 {
			delete(a, key)
		}
	}
	return a
}

// podResources are the resources of a pod as a whole, while they follow its containers.
type podResources struct {
	*derivation
	spec  *object
	parts []asking
	last  string // the template that stands for what none asks for by itself
}

func (p *podResources) at(field string) *place {
	return (&place{node: p.changes}).field("spec").field("resources").field(field)
}

func (p *podResources) fields(field string) map[string]any {
	return objectOf(objectOf(p.spec.fields["resources"])[field])
}

// shares are what the containers of templates that add ask for of each resource.
type shares struct {
	// beside is the sidecars' sum, peak the most that an init container of theirs needs while
	// it runs.
	beside, peak map[string]resource.Quantity
	// by are the templates that ask.
	by map[string][]string
}

// sharesOf sums up one side of the parts; total does so for a whole pod.
func (p *podResources) sharesOf(of func(asking) corev1.ResourceList, total func(map[string]any) map[string]resource.Quantity) shares {
	s := shares{beside: map[string]resource.Quantity{}, by: map[string][]string{}}
	over := map[string]bool{}
	for _, one := range p.parts {
		if !one.adds {
			continue
		}
		for name, share := range of(one) {
			key := string(name)
			for _, template := range one.templates {
				if !slices.Contains(s.by[key], template) {
					s.by[key] = append(s.by[key], template)
				}
			}
			if one.runs {
				sum := s.beside[key]
				sum.Add(share)
				s.beside[key] = sum
			} else if name, ok := one.container["name"].(string); ok {
				over[name] = true
			}
		}
	}
	if len(over) == 0 {
		return s
	}
	// While an init container runs, so do the sidecars before it.
	var beside []any
	inits, _ := p.spec.fields["initContainers"].([]any)
	for _, c := range inits {
		if name, _ := objectOf(c)["name"].(string); over[name] || objectOf(c)["restartPolicy"] == "Always" {
			beside = append(beside, c)
		}
	}
	s.peak = total(map[string]any{"initContainers": beside})
	return s
}

// grown returns q, the pod's own, with what the templates' containers ask for beside it: the
// sidecars' sum, or more if a template's init container needs more while it runs.
func (s shares) grown(key string, q resource.Quantity) resource.Quantity {
	grown := q.DeepCopy()
	grown.Add(s.beside[key])
	if peak := s.peak[key]; peak.Cmp(grown) > 0 && len(s.by[key]) > 0 {
		return peak
	}
	return grown
}

func (p *podResources) addLimits() {
	limits := p.fields("limits")
	shares := p.sharesOf(func(one asking) corev1.ResourceList { return one.limits }, podschema.ContainerLimits)
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		own, ok := podschema.ParseQuantity(limits[key])
		if !ok || !podschema.IsPodResource(key) || p.settled(p.at("limits").field(key)) {
			continue
		}
		if grown := shares.grown(key, own); grown.Cmp(own) > 0 {
			p.write("limits", key, limits[key], grown, shares.by[key])
		}
	}
}

// settled reports whether templates decided about the place themselves.
func (p *podResources) settled(at *place) bool {
	n := at.find()
	return n.asked() || n != nil && n.Do != Nothing
}

func (p *podResources) write(field, key string, was any, q resource.Quantity, by []string) {
	resources, _ := p.spec.object("resources")
	if len(by) == 0 {
		by = []string{p.last}
	}
	o, ok := resources.object(field)
	if !ok {
		resources.put(field, map[string]any{})
		o, _ = resources.object(field)
		made := p.at(field).note()
		made.put(Make, nil)
		made.by(by[0])
	}
	n := p.at(field).field(key).note()
	n.put(Write, was)
	for _, name := range by {
		n.by(name)
	}
	o.put(key, inUnitsOf(was, key, q))
}

// inUnitsOf writes a quantity as somebody wrote the one before, or else as is usual.
func inUnitsOf(was any, key string, q resource.Quantity) string {
	q.Add(resource.Quantity{}) // it forgets how it was written
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

// addRequests does the same for requests. Those that the API server made of the
// containers' it makes anew, and would refuse what is too little: they go. What it will
// make where there was none is expected.
func (p *podResources) addRequests() {
	requests, limited := p.fields("requests"), len(p.fields("limits")) > 0
	keys := map[string]bool{string(corev1.ResourceCPU): true, string(corev1.ResourceMemory): true}
	for _, named := range []map[string]any{p.fields("limits"), requests} {
		for key := range named {
			if podschema.IsPodResource(key) {
				keys[key] = true
			}
		}
	}
	shares := p.sharesOf(func(one asking) corev1.ResourceList { return one.requests }, podschema.ContainerRequests)
	base, wanted := podschema.DerivedRequests(objectOf(p.base["spec"]), keys), podschema.DerivedRequests(p.spec.fields, keys)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		here := p.at("requests").field(key)
		if p.settled(here) {
			continue
		}
		// The API server makes less of the containers' requests where only sidecars request
		// something, and the pod's limit stood for the app's request.
		stands := requests[key]
		own, named := podschema.ParseQuantity(stands)
		derived, had := base[key]
		will, has := wanted[key]
		switch made := had && limited && podschema.SameQuantity(stands, derived); {
		case named && !made:
			p.raise(shares, key, stands, own)
		case had && has && limited && less(will, shares.grown(key, derived)):
			p.raise(shares, key, stands, derived)
		case stands == nil && has && (!had || will.Cmp(derived) != 0):
			p.expect("requests", key)
		case made && has && will.Cmp(derived) != 0:
			o, _ := p.spec.object("resources")
			o, _ = o.object("requests")
			n := here.note()
			n.put(Renew, o.fields[key])
			n.by(p.last)
			o.remove(key)
		}
	}
}

// raise writes the request that the pod as a whole needs with the sidecars. It stands in
// the pod now, or the API server would have made it.
func (p *podResources) raise(shares shares, key string, stands any, own resource.Quantity) {
	grown := shares.grown(key, own)
	if stands == nil || grown.Cmp(own) > 0 {
		p.write("requests", key, stands, grown, shares.by[key])
	}
}

// expectLimits notes the limits that the API server will make of the containers', where it
// makes others of the base pod's, or none.
func (p *podResources) expectLimits() {
	base, wanted := podschema.DerivedLimits(objectOf(p.base["spec"])), podschema.DerivedLimits(p.spec.fields)
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		was, had := base[key]
		if will := wanted[key]; !p.settled(p.at("limits").field(key)) && (!had || will.Cmp(was) != 0) {
			p.expect("limits", key)
		}
	}
}

// expect notes a value that the API server will make where the pod has none.
func (p *podResources) expect(field, key string) {
	if p.fields(field) == nil && p.at(field).find() == nil {
		made := p.at(field).note()
		made.put(Expect, nil)
		made.by(p.last)
	}
	n := p.at(field).field(key).note()
	n.put(Expect, nil)
	n.by(p.last)
}

// check refuses a pod whose containers ask for more than the pod as a whole has, unless
// they did before: that is between the pod's author and the API server.
func (p *podResources) check(base map[string]any) error {
	if len(p.parts) == 0 && !p.at("requests").parent.find().Edits() {
		return nil
	}
	before, now := podschema.ContainerRequests(base), podschema.ContainerRequests(p.spec.fields)
	resourcesBefore := objectOf(base["resources"])
	requests, limits := p.fields("requests"), p.fields("limits")
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if !podschema.IsPodResource(key) {
			continue
		}
		field, has := "requests", requests[key]
		if has == nil {
			field, has = "limits", limits[key] // the API server makes the request of the containers'
		}
		had := objectOf(resourcesBefore[field])[key]
		if lacks(has, now[key]) && !lacks(had, before[key]) {
			return p.tooSmall(field, key, has, now[key], func(one asking) corev1.ResourceList { return one.requests })
		}
	}
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		request, ok := podschema.ParseQuantity(requests[key])
		had, _ := podschema.ParseQuantity(objectOf(resourcesBefore["requests"])[key])
		if ok && lacks(limits[key], request) && !lacks(objectOf(resourcesBefore["limits"])[key], had) {
			return p.tooSmall("limits", key, limits[key], request, func(one asking) corev1.ResourceList { return one.requests })
		}
	}
	for _, one := range p.parts {
		// A single app container may not have more than the pod as a whole either.
		for key, limit := range objectOf(objectOf(one.container["resources"])["limits"]) {
			q, ok := podschema.ParseQuantity(limit)
			if _, more := one.limits[corev1.ResourceName(key)]; ok && more && one.app && lacks(limits[key], q) {
				return p.tooSmall("limits", key, limits[key], q, func(other asking) corev1.ResourceList {
					if other.container["name"] == one.container["name"] {
						return other.limits
					}
					return nil
				})
			}
		}
	}
	return nil
}

func less(a, b resource.Quantity) bool { return a.Cmp(b) < 0 }

// lacks reports whether v is a quantity below q.
func lacks(v any, q resource.Quantity) bool {
	have, ok := podschema.ParseQuantity(v)
	return ok && have.Cmp(q) < 0
}

// tooSmall names the template because of which the pod has too little: the one that set
// what it has, or one that leaves the pod's resources alone.
func (p *podResources) tooSmall(field, key string, has any, need resource.Quantity, of func(asking) corev1.ResourceList) error {
	path := podschema.Readable([]string{"spec", "resources", field, key})
	q, _ := podschema.ParseQuantity(has)
	have, wanted := inUnitsOf(has, key, q), inUnitsOf(has, key, need)
	if n := p.at(field).field(key).find(); n.asked() && !n.gone() {
		return &ResourcesError{Template: n.Templates[0], Path: path, Why: fmt.Sprintf("sets %s to %s, and with all sidecars %s is needed there; set it to %s at least in the template", path, have, wanted, wanted)}
	}
	if n := p.at("requests").field(key).find(); field == "limits" && n.asked() && !n.gone() {
		request := podschema.Readable([]string{"spec", "resources", "requests", key})
		return &ResourcesError{Template: n.Templates[0], Path: path, Why: fmt.Sprintf("sets %s to %s, and %s of the pod is %s; set the limit to %s at least in the pod, or less in the template", request, wanted, path, have, wanted)}
	}
	template, share, peak := "", resource.Quantity{}, resource.Quantity{}
	for _, one := range p.parts {
		asks, some := of(one)[corev1.ResourceName(key)]
		if !some || one.adds {
			continue
		}
		if template == "" {
			template = one.templates[0]
		}
		switch {
		case !slices.Contains(one.templates, template):
		case one.runs:
			share.Add(asks)
		case asks.Cmp(peak) > 0:
			peak = asks
		}
	}
	if peak.Cmp(share) > 0 {
		share = peak
	}
	if template == "" {
		return &ResourcesError{Template: p.last, Path: path, Why: fmt.Sprintf("needs %s at %s of the pod, which is %s; set it to %s at least in the pod", wanted, path, have, wanted)}
	}
	return &ResourcesError{Template: template, Path: path, Why: fmt.Sprintf("leaves the pod's own resources as they are (podResources: Keep), and they are too small: %s is %s, and the containers ask for %s, %s of it for this template; "+
		"set it to %s at least in the pod, or podResources: Add in the template", path, have, wanted, inUnitsOf(has, key, share), wanted)}
}
