package predict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"

	"github.com/pillion-dev/pillion/offline/apirules"
)

// breach is one rule that a pod breaks.
type breach struct {
	says string
	// container is the one that breaks it, "" for the pod.
	container string
	resource  corev1.ResourceName
	// certain: it does not depend on what else the namespace has now.
	certain bool
}

// limits finds what the LimitRanges of the namespace refuse.
func (p *prediction) limits() {
	if len(p.Namespace.LimitRanges) == 0 {
		return
	}
	before, after := p.limited(p.before), p.limited(p.after)
	for i := range p.Namespace.LimitRanges {
		of := &p.Namespace.LimitRanges[i]
		had := ruled(breaches(of, before))
		for _, b := range breaches(of, after) {
			p.breach(LimitRange, of.Name, b, had[b.rule()], len(had) > 0)
		}
	}
}

// rule is what a breach breaks: an object's bound for a resource of a container.
type rule struct {
	container string
	resource  corev1.ResourceName
}

func (b breach) rule() rule { return rule{b.container, b.resource} }

// ruled has the rules that breaches break.
func ruled(all []breach) map[rule]bool {
	broken := make(map[rule]bool, len(all))
	for _, b := range all {
		broken[b.rule()] = true
	}
	return broken
}

// breach adds a trouble with an object of the namespace. Same: the pod without the sidecars breaks
// the same rule, and alsoWithout: it breaks one of the object's.
func (p *prediction) breach(source, object string, b breach, same, alsoWithout bool) {
	containers := p.sidecars
	if b.container != "" {
		containers = p.named[b.container]
	}
	paths := p.resourcePaths(containers, string(b.resource))
	if same && !p.written(paths) {
		return // the app's own
	}
	kind := map[string]string{LimitRange: "LimitRange", ResourceQuota: "ResourceQuota"}[source]
	p.add(Trouble{
		Source: source, Object: object, Refused: b.certain && !alsoWithout, AlsoWithout: alsoWithout,
		Says: fmt.Sprintf("the %s %s refuses the pod: %s", kind, object, b.says),
	}, paths...)
}

// written reports whether a template writes one of the places.
func (p *prediction) written(paths [][]string) bool {
	for _, template := range p.Injected {
		for _, path := range paths {
			if template.At(path).Written {
				return true
			}
		}
	}
	return false
}

// limited returns a pod with the requests and limits that the API server and the
// LimitRanges fill in.
func (p *prediction) limited(pod *corev1.Pod) *corev1.Pod {
	pod = apirules.WithRequests(pod)
	for i := range p.Namespace.LimitRanges {
		for _, item := range p.Namespace.LimitRanges[i].Spec.Limits {
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			limits := over(item.Max, item.Default)
			requests := over(over(item.Min, limits), item.DefaultRequest)
			fill := func(containers []corev1.Container) {
				for i := range containers {
					r := &containers[i].Resources
					r.Limits, r.Requests = over(limits, r.Limits), over(requests, r.Requests)
				}
			}
			fill(pod.Spec.InitContainers)
			fill(pod.Spec.Containers)
		}
	}
	return pod
}

// over returns the resources of both lists; where both have one, that of the second.
func over(a, b corev1.ResourceList) corev1.ResourceList {
	all := corev1.ResourceList{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// breaches returns what a LimitRange refuses of a pod that has its defaults.
func breaches(of *corev1.LimitRange, pod *corev1.Pod) []breach {
	var all []breach
	for _, item := range of.Spec.Limits {
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, c := range apirules.Containers(pod) {
				all = append(all, outside(item, c.Name, c.Resources.Requests, c.Resources.Limits)...)
			}
		case corev1.LimitTypePod:
			all = append(all, outside(item, "", resources.PodRequests(pod, resources.PodResourcesOptions{}), resources.PodLimits(pod, resources.PodResourcesOptions{}))...)
		}
	}
	return all
}

// outside compares requests and limits with one item of a LimitRange, in its own words.
func outside(item corev1.LimitRangeItem, container string, requests, limits corev1.ResourceList) []breach {
	var all []breach
	who := ""
	if container != "" {
		who = "container " + container + ": "
	}
	add := func(name corev1.ResourceName, format string, args ...any) {
		all = append(all, breach{says: who + fmt.Sprintf(format, args...), container: container, resource: name, certain: true})
	}
	// A bound has to be kept by what must be there, first, and by the other, if it is there.
	bound := func(word string, bounds corev1.ResourceList, first, other string, beyond int) {
		of := map[string]corev1.ResourceList{"request": requests, "limit": limits}
		for _, name := range slices.Sorted(maps.Keys(bounds)) {
			bound := bounds[name]
			for _, kind := range []string{first, other} {
				quantity, there := of[kind][name]
				if !there && kind == first {
					add(name, "%s %s usage per %s is %s. No %s is specified", word, name, item.Type, &bound, kind)
					break
				}
				if there && quantity.Cmp(bound) == beyond {
					add(name, "%s %s usage per %s is %s, but %s is %s", word, name, item.Type, &bound, kind, &quantity)
					break
				}
			}
		}
	}
	bound("minimum", item.Min, "request", "limit", -1)
	bound("maximum", item.Max, "limit", "request", 1)
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		ratio := item.MaxLimitRequestRatio[name]
		request, limit := requests[name], limits[name]
		if !request.IsZero() && !limit.IsZero() && limit.AsApproximateFloat64() > request.AsApproximateFloat64()*ratio.AsApproximateFloat64() {
			add(name, "%s max limit to request ratio per %s is %s, but the limit is %s and the request %s", name, item.Type, &ratio, &limit, &request)
		}
	}
	return all
}

// quotas finds what the ResourceQuotas of the namespace refuse.
func (p *prediction) quotas() {
	if len(p.Namespace.Quotas) == 0 {
		return
	}
	before, after := p.limited(p.before), p.limited(p.after)
	for i := range p.Namespace.Quotas {
		of := &p.Namespace.Quotas[i]
		if len(of.Spec.Scopes) > 0 || of.Spec.ScopeSelector != nil {
			continue
		}
		had := ruled(exceeded(of, before))
		for _, b := range exceeded(of, after) {
			p.breach(ResourceQuota, of.Name, b, had[b.rule()] && b.container != "", len(had) > 0)
		}
	}
}

// exceeded returns what a ResourceQuota refuses of a pod.
func exceeded(of *corev1.ResourceQuota, pod *corev1.Pod) []breach {
	var all []breach
	sums := corev1.ResourceRequirements{Requests: resources.PodRequests(pod, resources.PodResourcesOptions{}), Limits: resources.PodLimits(pod, resources.PodResourcesOptions{})}
	for _, hard := range slices.Sorted(maps.Keys(of.Spec.Hard)) {
		kind, name, ok := strings.Cut(string(hard), ".")
		if !ok {
			kind, name = "requests", string(hard)
		}
		resourceName := corev1.ResourceName(name)
		if kind != "requests" && kind != "limits" {
			continue
		}
		if resourceName != corev1.ResourceCPU && resourceName != corev1.ResourceMemory && resourceName != corev1.ResourceEphemeralStorage {
			continue
		}
		if resourceName != corev1.ResourceEphemeralStorage {
			for _, c := range apirules.Containers(pod) {
				if quantity, ok := listed(c.Resources, kind)[resourceName]; (!ok || quantity.IsZero()) && !podHas(pod, kind, resourceName) {
					all = append(all, breach{says: fmt.Sprintf("must specify %s for: %s", hard, c.Name), container: c.Name, resource: resourceName, certain: true})
				}
			}
		}
		most, used := of.Spec.Hard[hard], of.Status.Used[hard]
		asked := listed(sums, kind)[resourceName]
		total := used.DeepCopy()
		total.Add(asked)
		if asked.Cmp(resource.Quantity{}) > 0 && total.Cmp(most) > 0 {
			all = append(all, breach{
				says: fmt.Sprintf("exceeded quota: requested: %s=%s, used: %s=%s, limited: %s=%s", hard, &asked, hard, &used, hard, &most), resource: resourceName, certain: asked.Cmp(most) > 0,
			})
		}
	}
	return all
}

// podHas reports whether spec.resources says it for all containers.
func podHas(pod *corev1.Pod, kind string, name corev1.ResourceName) bool {
	if pod.Spec.Resources == nil {
		return false
	}
	_, ok := listed(*pod.Spec.Resources, kind)[name]
	return ok
}

// listed returns the requests or the limits.
func listed(r corev1.ResourceRequirements, kind string) corev1.ResourceList {
	if kind == "limits" {
		return r.Limits
	}
	return r.Requests
}
