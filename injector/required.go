package injector

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// bases are the pods that templates see.
type bases struct {
	// byStatus is the pod without what its status lists.
	byStatus map[string]any
	// byNames, for required templates, is the pod without what the templates of this
	// request render, by name. A status can be forged: by it, a pod could hide its
	// containers from a template that must see them.
	byNames map[string]any
}

func (b bases) of(t *templates.Template) map[string]any {
	if t.Spec().Required {
		return b.byNames
	}
	return b.byStatus
}

// bases returns what the templates that were decided upon see.
func (r *run) bases(byStatus map[string]any) bases {
	b := bases{byStatus: byStatus, byNames: byStatus}
	if !slices.ContainsFunc(r.decision.Inject, func(name string) bool { return r.template(name).Spec().Required }) {
		return b
	}
	var fragments []map[string]any
	for _, name := range r.decision.Inject {
		// What fails here fails again where it is rendered to be used.
		if rendered, err := r.template(name).Render(templates.Input{Pod: byStatus, Namespace: r.request.Namespace}); err == nil {
			fragments = append(fragments, rendered.Fragment)
		}
	}
	b.byNames = withoutNames(r.request.Pod, r.pipeline.statusKey, fragments)
	return b
}

// ownedLists are the lists of a pod's spec whose items are known by their names.
var ownedLists = []string{"initContainers", "containers", "volumes"}

// withoutNames returns the pod without the status annotation and without the
// sidecars and volumes that the fragments add. It shares what is the same.
func withoutNames(pod map[string]any, statusKey string, fragments []map[string]any) map[string]any {
	spec, _ := pod["spec"].(map[string]any)
	spec = maps.Clone(spec)
	for _, list := range ownedLists {
		items, _ := spec[list].([]any)
		owned := map[string]bool{}
		for _, f := range fragments {
			for _, item := range itemsOf(f, list) {
				if list == "volumes" || item["image"] != nil {
					owned[nameOf(item)] = true
				}
			}
		}
		if len(items) == 0 || len(owned) == 0 {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(items), func(v any) bool { item, _ := v.(map[string]any); return owned[nameOf(item)] })
		if len(left) == 0 {
			delete(spec, list)
			continue
		}
		spec[list] = left
	}
	base := dropStatus(pod, statusKey)
	if spec != nil {
		base["spec"] = spec
	}
	return base
}

// dropStatus returns the pod without its status annotation.
func dropStatus(pod map[string]any, statusKey string) map[string]any {
	pod = maps.Clone(pod)
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if _, ok := annotations[statusKey]; ok {
		metadata, annotations = maps.Clone(metadata), maps.Clone(annotations)
		delete(annotations, statusKey)
		metadata["annotations"], pod["metadata"] = annotations, metadata
	}
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

// Verify says in which ways the final pod is not what the required templates make
// of it, after all webhooks: nothing, if all is well. Old is the pod before an
// update, of which only images (or, by the subresource resize, resources) count.
// An error is Pillion's own fault.
func (p *Pipeline) Verify(req Request, old map[string]any) ([]string, error) {
	if req.Operation != "CREATE" {
		return p.verifyUpdate(req, old), nil
	}
	r := run{pipeline: p, request: req}
	r.decide()
	var wrong []string
	for _, o := range r.decision.Outcomes {
		if entry, _ := req.Templates.Get(o.Template); o.Deny && isRequired(entry) {
			wrong = append(wrong, fmt.Sprintf("template %s: %s (%s)", o.Template, o.Why, o.Code))
		}
	}
	status, _ := merge.ParseStatus(req.Pod, p.statusKey) // a bad one counts as none
	bases := r.bases(merge.Base(req.Pod, status))
	for _, name := range r.decision.Inject {
		t := r.template(name)
		if !t.Spec().Required {
			continue
		}
		rendered, err := t.Render(templates.Input{Pod: bases.byNames, Namespace: req.Namespace})
		if err != nil {
			if renderCode(err) == reason.InternalError {
				return nil, fmt.Errorf("rendering template %s: %w", name, err)
			}
			wrong = append(wrong, err.Error())
			continue
		}
		if rendered.Unmet != nil || rendered.Fragment == nil {
			continue
		}
		found, err := p.differences(t, rendered.Fragment, req.Pod)
		if err != nil {
			return nil, fmt.Errorf("comparing the pod with template %s: %w", name, err)
		}
		for _, d := range found {
			wrong = append(wrong, "template "+name+": "+d)
		}
	}
	return wrong, nil
}

// isRequired tells whether an entry's template is required, as far as that is known.
func isRequired(e templates.Entry) bool {
	if e.Template != nil {
		return e.Template.Spec().Required
	}
	b := brokenOf(e)
	return b != nil && b.Required
}

// entrypoint are the fields of a container that decide what runs in it. One that
// the template leaves to the image, the pod may not set either.
var entrypoint = []string{"command", "args", "workingDir", "lifecycle", "restartPolicy"}

// differences says what of a required fragment is not in the pod. What other
// webhooks and the API server add to a sidecar is none; nor is an image that
// spec.verify accepts.
func (p *Pipeline) differences(t *templates.Template, fragment, pod map[string]any) ([]string, error) {
	var wrong []string
	spec, _ := fragment["spec"].(map[string]any)
	spec = maps.Clone(spec)
	for _, list := range []string{"initContainers", "containers"} {
		items, ok := spec[list].([]any)
		if !ok {
			continue
		}
		var rest []any
		for _, v := range items {
			item, _ := v.(map[string]any)
			image, isSidecar := item["image"].(string)
			if !isSidecar {
				rest = append(rest, v)
				continue
			}
			has := named(itemsOf(pod, list), nameOf(item))
			if has == nil {
				wrong = append(wrong, fmt.Sprintf("the container %s is not among spec.%s", nameOf(item), list))
				continue
			}
			if got, _ := has["image"].(string); !acceptable(t, image, got) {
				wrong = append(wrong, fmt.Sprintf("the container %s has the image %q; %s", nameOf(item), clip(got), wantedImage(t, image)))
			}
			for _, field := range entrypoint {
				if _, sets := item[field]; !sets && has[field] != nil {
					wrong = append(wrong, fmt.Sprintf("the container %s has %s, which the template leaves alone", nameOf(item), field))
				}
			}
			// Without an image it extends the container of its name, which stands there.
			extension := maps.Clone(item)
			delete(extension, "image")
			delete(extension, "$position")
			rest = append(rest, extension)
		}
		spec[list] = rest
	}
	fragment = maps.Clone(fragment)
	if spec != nil {
		fragment["spec"] = spec
	}
	more, err := p.unmerged(t, fragment, pod)
	return append(wrong, more...), err
}

// unmerged merges a fragment into a pod that should have it all, and says what that
// would change.
func (p *Pipeline) unmerged(t *templates.Template, fragment, pod map[string]any) ([]string, error) {
	result, err := merge.Merge(dropStatus(pod, p.statusKey), merge.Status{}, []merge.Fragment{{
		Template: t.Name(), Hash: t.Hash(), Object: fragment, OnConflict: string(t.Spec().OnConflict),
	}}, merge.Options{StatusKey: p.statusKey})
	var conflict *merge.ConflictError
	var unfit *merge.FragmentError
	var malformed *merge.PodError
	switch {
	case errors.As(err, &conflict), errors.As(err, &unfit), errors.As(err, &malformed):
		return []string{err.Error()}, nil
	case err != nil:
		return nil, err
	}
	var wrong []string
	for _, e := range result.Edits {
		at := e.Path
		if value, _ := e.Value.(map[string]any); len(at) == 2 && at[1] == "annotations" && len(value) == 1 && value[p.statusKey] != nil {
			continue
		}
		if len(at) == 3 && at[1] == "annotations" && at[2] == p.statusKey {
			continue
		}
		what := "is not as it renders it"
		if e.Op == "add" {
			what = "is missing"
		}
		wrong = append(wrong, fmt.Sprintf("%s %s", p.describe(pod, at), what))
	}
	return wrong, nil
}

// describe writes the path of an edit with names in place of indexes.
func (p *Pipeline) describe(pod map[string]any, at []string) string {
	var b strings.Builder
	var v any = pod
	for i, step := range at {
		switch w := v.(type) {
		case map[string]any:
			v = w[step]
		case []any:
			v = nil
			var index int
			if _, err := fmt.Sscan(step, &index); err == nil && index >= 0 && index < len(w) {
				item, _ := w[index].(map[string]any)
				if name := nameOf(item); name != "" {
					step = name
				}
				v = w[index]
			}
			if step == "-" {
				continue
			}
			b.WriteString("[" + clip(step) + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(clip(step))
	}
	return b.String()
}

func clip(s string) string {
	if r := []rune(s); len(r) > 100 {
		return string(r[:100]) + "…"
	}
	return s
}

// acceptable tells whether a sidecar may have an image where the template renders
// another.
func acceptable(t *templates.Template, rendered, got string) bool {
	if rendered == got {
		return true
	}
	v := t.Spec().Verify
	return v != nil && slices.ContainsFunc(v.Images, func(pattern string) bool { return matchesPattern(pattern, got) })
}

func wantedImage(t *templates.Template, rendered string) string {
	if v := t.Spec().Verify; v != nil {
		return fmt.Sprintf("want %q or one that matches %s", rendered, strings.Join(v.Images, ", "))
	}
	return fmt.Sprintf("want %q (spec.verify.images could allow others)", rendered)
}

// matchesPattern matches text with a pattern in which * stands for any text.
func matchesPattern(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[last])
}

// verifyUpdate judges an update by what of a pod can still change. Labels and
// annotations may have changed before, without anybody asking, so it is the
// namespace alone that says for which templates a container counts.
func (p *Pipeline) verifyUpdate(req Request, old map[string]any) []string {
	changed := changedContainers(old, req.Pod, map[bool]string{true: "resources", false: "image"}[req.Subresource == "resize"])
	if len(changed) == 0 || slices.Contains(p.config.ExcludedNamespaces, req.Namespace.Name) {
		return nil
	}
	base := dropStatus(req.Pod, p.statusKey)
	var wrong []string
	for _, e := range req.Templates.All() {
		if e.Template == nil || !e.Template.Spec().Required || e.Template.Spec().Suspend {
			continue
		}
		namespaces, pods, ok := e.Template.Match()
		if !ok || !namespaces.Matches(labels.Set(req.Namespace.Labels)) {
			continue
		}
		rendered, err := e.Template.Render(templates.Input{Pod: base, Namespace: req.Namespace, IgnoreConditions: true})
		if err == nil {
			// Once more, as the template saw the pod when it was made.
			hidden := withoutNames(req.Pod, p.statusKey, []map[string]any{rendered.Fragment})
			rendered, err = e.Template.Render(templates.Input{Pod: hidden, Namespace: req.Namespace, IgnoreConditions: true})
		}
		if err != nil {
			if pods.Matches(podLabels(req.Pod)) || pods.Matches(podLabels(old)) {
				wrong = append(wrong, err.Error())
			}
			continue
		}
		for _, d := range changedSidecars(e.Template, rendered.Fragment, req, changed) {
			wrong = append(wrong, "template "+e.Name+": "+d)
		}
	}
	return wrong
}

func podLabels(pod map[string]any) labels.Set {
	metadata, _ := pod["metadata"].(map[string]any)
	return labels.Set(stringMap(metadata["labels"]))
}

// changedContainers returns the paths, as containers/NAME, of those of which a
// field has changed.
func changedContainers(old, pod map[string]any, field string) map[string]bool {
	changed := map[string]bool{}
	for _, list := range []string{"initContainers", "containers"} {
		before := itemsOf(old, list)
		for _, c := range itemsOf(pod, list) {
			if was := named(before, nameOf(c)); was == nil || fmt.Sprint(was[field]) != fmt.Sprint(c[field]) {
				changed[path.Join(list, nameOf(c))] = true
			}
		}
	}
	return changed
}

func changedSidecars(t *templates.Template, fragment map[string]any, req Request, changed map[string]bool) []string {
	var wrong []string
	for _, list := range []string{"initContainers", "containers"} {
		for _, item := range itemsOf(fragment, list) {
			image, isSidecar := item["image"].(string)
			if !isSidecar || !changed[path.Join(list, nameOf(item))] {
				continue
			}
			has := named(itemsOf(req.Pod, list), nameOf(item))
			if got, _ := has["image"].(string); req.Subresource != "resize" && !acceptable(t, image, got) {
				wrong = append(wrong, fmt.Sprintf("the container %s would have the image %q; %s", nameOf(item), clip(got), wantedImage(t, image)))
			}
			if req.Subresource == "resize" {
				wrong = append(wrong, otherResources(item, has)...)
			}
		}
	}
	return wrong
}

// otherResources says which of the resources that a sidecar's template sets are
// others in the pod.
func otherResources(item, has map[string]any) []string {
	var wrong []string
	wants, _ := item["resources"].(map[string]any)
	got, _ := has["resources"].(map[string]any)
	for _, kind := range []string{"limits", "requests"} {
		want, _ := wants[kind].(map[string]any)
		have, _ := got[kind].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !sameQuantity(want[name], have[name]) {
				wrong = append(wrong, fmt.Sprintf("the container %s would have resources.%s.%s %v; want %v", nameOf(item), kind, name, have[name], want[name]))
			}
		}
	}
	return wrong
}

func sameQuantity(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, err := resource.ParseQuantity(fmt.Sprint(a))
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && x.Cmp(y) == 0
}
