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

// Verify refuses a final pod, after all webhooks, that is not what the required
// templates make of it. Of an update only images count, or with the subresource
// resize only resources. An error is Pillion's own fault.
func (p *Pipeline) Verify(req Request) (Outcome, error) {
	wrong, err := p.wrong(req)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Allowed: true, Pod: req.Pod}
	if len(wrong) > 0 {
		out.Allowed, out.Code = false, reason.RequiredMissing
		out.Message = fmt.Sprintf("required here, and not as it has to be: %s (%s)", strings.Join(wrong, "; "), out.Code)
	}
	return out, nil
}

// wrong says in which ways the pod is not what the required templates make of it.
func (p *Pipeline) wrong(req Request) ([]string, error) {
	if req.Operation != "CREATE" {
		return p.verifyUpdate(req), nil
	}
	r := run{pipeline: p, request: req}
	r.decide()
	var wrong []string
	for _, o := range r.decision.Outcomes {
		if entry, _ := req.Templates.Get(o.Template); o.Deny && entry.Required() {
			wrong = append(wrong, fmt.Sprintf("template %s: %s (%s)", o.Template, o.Why, o.Code))
		}
	}
	status, _ := merge.ParseStatus(req.Pod, p.statusKey) // a bad one counts as none
	v := r.views(status)
	for v.reveal(v.fragments(), req.Pod) {
	}
	missing, err := r.missing(v, req.Pod)
	for _, o := range missing {
		wrong = append(wrong, o.Why)
	}
	return wrong, err
}

// missing says for each required template in which ways the pod is not what it makes
// of it.
func (r *run) missing(v *views, pod map[string]any) ([]TemplateOutcome, error) {
	var missing []TemplateOutcome
	for _, name := range r.decision.Inject {
		if !v.isRequired(name) {
			continue
		}
		out := TemplateOutcome{Name: name, Hash: r.template(name).Hash(), Code: reason.RequiredMissing, Asked: true}
		rendered, err := v.render(name)
		if err != nil {
			if renderCode(err) == reason.InternalError {
				return nil, fmt.Errorf("rendering template %s: %w", name, err)
			}
			out.Why = err.Error()
			missing = append(missing, out)
			continue
		}
		if rendered.Unmet != nil || rendered.Fragment == nil {
			continue
		}
		found, err := r.pipeline.differences(r.template(name), rendered.Fragment, pod)
		if err != nil {
			return nil, fmt.Errorf("comparing the pod with template %s: %w", name, err)
		}
		if len(found) > 0 {
			out.Why = "template " + name + ": " + strings.Join(found, "; ")
			missing = append(missing, out)
		}
	}
	return missing, nil
}

// entrypoint are the fields of a container that decide what runs in it. One that
// the template leaves to the image, the pod may not set either.
var entrypoint = []string{"command", "args", "workingDir", "lifecycle", "restartPolicy"}

// probes run programs in a container, too, if they say exec.
var probes = []string{"livenessProbe", "readinessProbe", "startupProbe"}

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
			for _, probe := range probes {
				if has, _ := has[probe].(map[string]any); item[probe] == nil && has["exec"] != nil {
					wrong = append(wrong, fmt.Sprintf("the container %s has %s.exec, and the template has no %s", nameOf(item), probe, probe))
				}
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
	edits, refusal, err := p.edits(t, fragment, pod)
	if err != nil || refusal != "" {
		return nonEmpty(refusal), err
	}
	var wrong []string
	for _, e := range edits {
		what := "is not as it renders it"
		if e.Op == "add" {
			what = "is missing"
		}
		wrong = append(wrong, fmt.Sprintf("%s %s", p.describe(pod, e.Path), what))
	}
	return wrong, nil
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// edits are what merging a fragment would change in a pod, besides the status. Refusal
// says why it cannot be merged.
func (p *Pipeline) edits(t *templates.Template, fragment, pod map[string]any) (edits []merge.Edit, refusal string, err error) {
	result, err := merge.Merge(dropStatus(pod, p.statusKey), merge.Status{}, []merge.Fragment{{
		Template: t.Name(), Hash: t.Hash(), Object: fragment, OnConflict: string(t.Spec().OnConflict),
	}}, merge.Options{StatusKey: p.statusKey})
	var conflict *merge.ConflictError
	var unfit *merge.FragmentError
	var malformed *merge.PodError
	switch {
	case errors.As(err, &conflict), errors.As(err, &unfit), errors.As(err, &malformed):
		return nil, err.Error(), nil
	case err != nil:
		return nil, "", err
	}
	edits = slices.DeleteFunc(result.Edits, func(e merge.Edit) bool {
		at := e.Path
		value, _ := e.Value.(map[string]any)
		return len(at) == 2 && at[1] == "annotations" && len(value) == 1 && value[p.statusKey] != nil ||
			len(at) == 3 && at[1] == "annotations" && at[2] == p.statusKey
	})
	return edits, "", nil
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
func (p *Pipeline) verifyUpdate(req Request) []string {
	changed := changedContainers(req.Old, req.Pod, map[bool]string{true: "resources", false: "image"}[req.Subresource == "resize"])
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
			hidden := without(base, itemsAdded(rendered.Fragment))
			rendered, err = e.Template.Render(templates.Input{Pod: hidden, Namespace: req.Namespace, IgnoreConditions: true})
		}
		if err != nil {
			if pods.Matches(podLabels(req.Pod)) || pods.Matches(podLabels(req.Old)) {
				wrong = append(wrong, err.Error())
			}
			continue
		}
		for _, d := range changedSidecars(e.Template, rendered.Fragment, req, changed) {
			wrong = append(wrong, "template "+e.Name+": "+d)
		}
		for _, d := range p.changedUnreached(e.Template, rendered.Fragment, req, changed) {
			wrong = append(wrong, "template "+e.Name+": "+d)
		}
	}
	return wrong
}

// changedUnreached judges containers that the template left alone when the pod was
// made, because another template's sidecar is not its business: what they run may not
// become anything else. A pod in which no container has what the template gives was made
// without it.
func (p *Pipeline) changedUnreached(t *templates.Template, fragment map[string]any, req Request, changed map[string]bool) []string {
	if req.Subresource == "resize" {
		return nil
	}
	var wrong []string
	reached := false
	for _, list := range []string{"initContainers", "containers"} {
		for _, extension := range itemsOf(fragment, list) {
			if extension["image"] != nil || named(itemsOf(req.Pod, list), nameOf(extension)) == nil {
				continue
			}
			edits, refusal, err := p.edits(t, map[string]any{"spec": map[string]any{list: []any{extension}}}, req.Pod)
			// Labels may have changed since, and with them what is rendered: only what
			// is not there at all tells.
			lacks := err != nil || refusal != "" || slices.ContainsFunc(edits, func(e merge.Edit) bool { return e.Op == "add" })
			switch {
			case !lacks:
				reached = true
			case changed[path.Join(list, nameOf(extension))]:
				wrong = append(wrong, fmt.Sprintf("the container %s would have another image, without what the template gives to it; "+
					"a pod's other fields cannot change any more: make a new pod", nameOf(extension)))
			}
		}
	}
	if !reached {
		return nil
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
