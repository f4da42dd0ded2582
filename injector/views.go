package injector

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// views are the pods that the templates of one request see, and what they render to.
//
// A template that is not required sees the pod without what its status lists. A status
// can be forged, and so can a container of a sidecar's name: a required template sees
// everything but what it renders itself, which the final pod is verified to have as
// rendered, and what is the same as the other templates of this request make of it.
type views struct {
	run *run
	// byStatus is the pod without what its status lists.
	byStatus map[string]any
	// named are the pod's items that have the name of something that the templates
	// of this request render.
	named map[item]bool
	// hidden are those that a required template does not see.
	hidden map[string]map[item]bool
	// rendered is what each template gives for what it sees now.
	rendered map[string]rendering
	reveals  int
}

type rendering struct {
	*templates.Rendered
	err error
}

// item is a container or a volume of a pod.
type item struct{ list, name string }

// maxReveals bounds what a pod can cost by revealing one item after the other: after
// that nothing is hidden, with which no pod but a strange one can be admitted.
const maxReveals = 4

// views begins with everything hidden of which the name could be Pillion's.
func (r *run) views(status merge.Status) *views {
	v := &views{run: r, byStatus: merge.Base(r.request.Pod, status), named: map[item]bool{}, hidden: map[string]map[item]bool{}, rendered: map[string]rendering{}}
	if !slices.ContainsFunc(r.decision.Inject, v.isRequired) {
		return v
	}
	present := map[item]bool{}
	for _, list := range ownedLists {
		for _, i := range itemsOf(r.request.Pod, list) {
			present[item{list, nameOf(i)}] = true
		}
	}
	for _, name := range r.decision.Inject {
		// What fails here fails again where it is rendered to be used.
		rendered := v.renderFor(name, v.byStatus)
		if rendered.err != nil {
			continue
		}
		if !v.isRequired(name) {
			v.rendered[name] = rendered
		}
		for i := range itemsAdded(rendered.Fragment) {
			if present[i] {
				v.named[i] = true
			}
		}
	}
	for _, name := range r.decision.Inject {
		if v.isRequired(name) {
			v.hidden[name] = v.named
		}
	}
	return v
}

func (v *views) isRequired(template string) bool { return v.run.template(template).Spec().Required }

// render gives what a template renders to for what it sees.
func (v *views) render(name string) (*templates.Rendered, error) {
	rendered, ok := v.rendered[name]
	if !ok {
		pod := v.byStatus
		if v.isRequired(name) {
			pod = without(dropStatus(v.run.request.Pod, v.run.pipeline.statusKey), v.hidden[name])
		}
		rendered = v.renderFor(name, pod)
		v.rendered[name] = rendered
	}
	return rendered.Rendered, rendered.err
}

func (v *views) renderFor(name string, pod map[string]any) rendering {
	rendered, err := v.run.template(name).Render(templates.Input{Pod: pod, Namespace: v.run.request.Namespace})
	return rendering{rendered, err}
}

// fragments are those of the templates that render to something.
func (v *views) fragments() []merge.Fragment {
	var fragments []merge.Fragment
	for _, name := range v.run.decision.Inject {
		if rendered, err := v.render(name); err == nil && rendered.Fragment != nil {
			fragments = append(fragments, fragmentOf(v.run.template(name), rendered))
		}
	}
	return fragments
}

func fragmentOf(t *templates.Template, rendered *templates.Rendered) merge.Fragment {
	return merge.Fragment{
		Template: t.Name(), Hash: t.Hash(), Params: rendered.ParamsHash, Object: rendered.Fragment,
		OnConflict: string(t.Spec().OnConflict), Overridable: t.Spec().Overridable,
	}
}

// reveal shows required templates the hidden items of which the fragments and the pod
// that came of them do not prove that they are Pillion's. It reports whether there were
// any: then those templates have to be rendered again.
func (v *views) reveal(fragments []merge.Fragment, pod map[string]any) bool {
	if len(v.named) == 0 {
		return false
	}
	made := v.made(fragments)
	asMade := map[item]bool{}
	for i := range v.named {
		asMade[i] = made.has(pod, i)
	}
	revealed := false
	for name, hidden := range v.hidden {
		var own map[item]bool
		for _, f := range fragments {
			if f.Template == name {
				own = itemsAdded(f.Object)
			}
		}
		left := maps.Clone(hidden)
		maps.DeleteFunc(left, func(i item, _ bool) bool { return !own[i] && !asMade[i] })
		if len(left) < len(hidden) {
			revealed = true
			v.hidden[name] = left
			delete(v.rendered, name)
		}
	}
	if revealed {
		v.reveals++
	}
	if revealed && v.reveals == maxReveals {
		for name := range v.hidden {
			v.hidden[name] = nil
			delete(v.rendered, name)
		}
	}
	return revealed
}

// made is what the fragments make of sidecars and volumes where there is nothing yet.
type made struct {
	pod map[string]any
	// by has the templates that render a sidecar, which may accept other images.
	by map[item][]*templates.Template
}

// made has the containers that could be Pillion's, and all volumes. It is empty if the
// fragments contradict each other for good.
func (v *views) made(fragments []merge.Fragment) made {
	m := made{by: map[item][]*templates.Template{}}
	some := make([]merge.Fragment, len(fragments))
	for n, f := range fragments {
		t := v.run.template(f.Template)
		spec := map[string]any{}
		for _, list := range ownedLists {
			var items []any
			for _, i := range itemsOf(f.Object, list) {
				at := item{list, nameOf(i)}
				if list != "volumes" && !v.named[at] {
					continue
				}
				if i["image"] != nil {
					m.by[at] = append(m.by[at], t)
				} else if list != "volumes" && v.isRequired(f.Template) && !v.hidden[f.Template][at] {
					continue // what it sees it extends as the pod's own
				}
				// Whatever it stands beside may not be there.
				i = maps.Clone(i)
				delete(i, "$position")
				items = append(items, i)
			}
			if items != nil {
				spec[list] = items
			}
		}
		f.Object, f.Overridable = map[string]any{"spec": spec}, false
		some[n] = f
	}
	m.pod = v.merged(some)
	return m
}

// merged is what the fragments make of an empty pod, those left out that contradict
// others and say onError: Skip. It is nil if one contradicts others and does not.
func (v *views) merged(fragments []merge.Fragment) map[string]any {
	empty := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{}}
	for {
		result, err := merge.Merge(empty, merge.Status{}, fragments, merge.Options{StatusKey: v.run.pipeline.statusKey})
		if err == nil {
			return result.Pod
		}
		fault, _ := faultOf(err)
		i := slices.IndexFunc(fragments, func(f merge.Fragment) bool { return f.Template == fault })
		if i < 0 || v.run.template(fault).Spec().OnError != v1alpha1.ErrorSkip {
			return nil
		}
		fragments = slices.Delete(fragments, i, i+1)
	}
}

// decisive are the fields of a container, besides its image, that decide what runs in
// it and what that can reach. In the others (resources, ports, what becomes of its last
// words) admission changes every container.
var decisive = slices.Concat([]string{"env", "envFrom", "volumeMounts", "volumeDevices", "securityContext"}, probes, entrypoint)

// has tells whether an item stands in the pod as it was made, a container with the
// volumes that it mounts.
func (m made) has(pod map[string]any, i item) bool {
	want := named(itemsOf(m.pod, i.list), i.name)
	image, _ := want["image"].(string)
	for _, has := range itemsOf(pod, i.list) {
		got, _ := has["image"].(string)
		accepts := func(t *templates.Template) bool { return acceptable(t, image, got) }
		switch {
		case nameOf(has) != i.name:
		case want == nil:
			return false
		case i.list == "volumes":
			if !merge.SameVolume(want, has) {
				return false
			}
		case !slices.ContainsFunc(m.by[i], accepts) || !merge.SameContainer(want, has, decisive) || !m.hasVolumesOf(want, pod):
			return false
		}
	}
	return true
}

func (m made) hasVolumesOf(container, pod map[string]any) bool {
	for _, field := range []string{"volumeMounts", "volumeDevices"} {
		mounts, _ := container[field].([]any)
		for _, v := range mounts {
			mount, _ := v.(map[string]any)
			volume := item{"volumes", nameOf(mount)}
			if named(itemsOf(m.pod, "volumes"), volume.name) != nil && !m.has(pod, volume) {
				return false
			}
		}
	}
	return true
}

// ownedLists are the lists of a pod's spec whose items are known by their names.
var ownedLists = []string{"initContainers", "containers", "volumes"}

// itemsAdded are the sidecars and volumes of a fragment.
func itemsAdded(fragment map[string]any) map[item]bool {
	added := map[item]bool{}
	for _, list := range ownedLists {
		for _, i := range itemsOf(fragment, list) {
			if list == "volumes" || i["image"] != nil {
				added[item{list, nameOf(i)}] = true
			}
		}
	}
	return added
}

// without returns the pod without the hidden items. It shares what is the same.
func without(pod map[string]any, hidden map[item]bool) map[string]any {
	spec, ok := pod["spec"].(map[string]any)
	if !ok || len(hidden) == 0 {
		return pod
	}
	spec = maps.Clone(spec)
	for _, list := range ownedLists {
		items, _ := spec[list].([]any)
		left := slices.DeleteFunc(slices.Clone(items), func(v any) bool {
			i, isObject := v.(map[string]any)
			return isObject && hidden[item{list, nameOf(i)}]
		})
		switch {
		case len(left) == len(items):
		case len(left) == 0:
			delete(spec, list)
		default:
			spec[list] = left
		}
	}
	pod = maps.Clone(pod)
	pod["spec"] = spec
	return pod
}

// itemsOf returns the objects in a list of the spec of a pod or fragment.
func itemsOf(object map[string]any, list string) []map[string]any {
	spec, _ := object["spec"].(map[string]any)
	values, _ := spec[list].([]any)
	var items []map[string]any
	for _, v := range values {
		if item, ok := v.(map[string]any); ok {
			items = append(items, item)
		}
	}
	return items
}

func nameOf(item map[string]any) string { name, _ := item["name"].(string); return name }

func named(items []map[string]any, name string) map[string]any {
	for _, item := range items {
		if nameOf(item) == name {
			return item
		}
	}
	return nil
}
