package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Verify refuses a final pod, after all webhooks, that is not what the required
// templates make of it. Of an update only images count, with the subresource
// resize only resources, and with ephemeralcontainers only new containers that
// enter a required sidecar. Errors and the end of the context are as with
// [Pipeline.Inject].
func (p *Pipeline) Verify(ctx context.Context, r Request) (Outcome, error) {
	out := Outcome{Allowed: true, Pod: r.Pod}
	k := p.begin(ctx)
	refusals, err := p.wrong(k, r)
	if err != nil || len(refusals) == 0 {
		return k.end(r, out, err)
	}
	out.Allowed, out.Code, out.Refusals = false, reason.RequiredMissing, refusals
	out.Message = fmt.Sprintf("required here, and not as it has to be: %s (%s)", sentences(refusals), out.Code)
	return out, nil
}

// wrong says in which ways a pod is not what the required templates make of it.
func (p *Pipeline) wrong(k *work, r Request) ([]TemplateOutcome, error) {
	if r.Operation != "CREATE" {
		return p.wrongInUpdate(k, r)
	}
	if err := k.next("reading the record of an earlier call"); err != nil {
		return nil, err
	}
	rec, _ := record.Parse(r.Pod, p.statusKey) // a record that cannot be read counts as none
	w, _, err := p.plan(k, r, rec, true)
	if err != nil {
		return nil, err
	}
	if len(w.out.Refusals) == 0 {
		if err := w.requireAll(r.Pod, rec); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(w.out.Refusals, func(t TemplateOutcome) bool { return t.Name == "" }), nil
}

// wrongInUpdate judges an update by what of a pod can still change. Labels and
// annotations may have changed before, so the namespace alone says for which
// templates a container counts.
func (p *Pipeline) wrongInUpdate(k *work, r Request) ([]TemplateOutcome, error) {
	if slices.Contains(p.config.ExcludedNamespaces, r.Namespace.Name) || p.disabled(r.Namespace) {
		return nil, nil
	}
	u := &update{work: k, request: r, changed: changedContainers(r)}
	if len(u.changed) == 0 {
		return nil, nil
	}
	u.base = record.New(p.statusKey).Base(r.Pod)
	var refusals []TemplateOutcome
	for _, place := range r.Templates.Required() {
		e := r.Templates.At(place)
		if e.Template == nil || e.Template.Policies().Suspend {
			continue
		}
		namespaces, pods, ok := e.Template.Match()
		if !ok || !namespaces.Matches(labels.Set(r.Namespace.Labels)) || !e.Template.AvailableTo(r.Namespace.Labels) {
			continue
		}
		matches := pods.Matches(labels.Set(podLabels(r.Pod))) || pods.Matches(labels.Set(podLabels(r.Old)))
		wrong, err := u.judge(p, e.Template, matches)
		if err != nil {
			return nil, err
		}
		if len(wrong) > 0 {
			refusals = append(refusals, TemplateOutcome{Name: e.Name, Hash: e.Template.Hash(), Code: reason.RequiredMissing, Asked: true, Why: strings.Join(wrong, "; ")})
		}
	}
	return refusals, nil
}

// update is a change of a running pod.
type update struct {
	work    *work
	request Request
	base    map[string]any // the pod without its record
	changed []changedContainer
}

// changedContainer is a container that an update changes, in its list.
type changedContainer struct {
	list      string
	container map[string]any
}

// changedContainers returns the containers that the update changes, as far as its
// subresource can: images, resources, or new ephemeral containers.
func changedContainers(r Request) []changedContainer {
	lists, field := []string{"initContainers", "containers"}, "image"
	switch r.Subresource {
	case "resize":
		field = "resources"
	case "ephemeralcontainers":
		lists, field = []string{"ephemeralContainers"}, ""
	}
	var changed []changedContainer
	for _, list := range lists {
		before := map[string]map[string]any{}
		for _, c := range containersOf(r.Old, list) {
			before[nameOf(c)] = c
		}
		for _, c := range containersOf(r.Pod, list) {
			was, there := before[nameOf(c)]
			if !there || field != "" && !podschema.Equal(podschema.At("spec.containers[]").Child(field), was[field], c[field]) {
				changed = append(changed, changedContainer{list, c})
			}
		}
	}
	return changed
}

// judge says in which ways the changed containers are not as a required template
// wants them. Matches reports whether the template selects the pod by its labels,
// before or after.
func (u *update) judge(p *Pipeline, t *templates.Template, matches bool) ([]string, error) {
	sidecars := sidecarsOf(t)
	if u.request.Subresource == "ephemeralcontainers" {
		return u.entered(sidecars), nil
	}
	seen := without(u.base, sidecars)
	if err := u.work.render(t.Name()); err != nil {
		return nil, err
	}
	rendered, err := t.Render(u.work.ctx, templates.Input{Pod: seen, Namespace: u.request.Namespace, Cache: p.cache, IgnoreConditions: true})
	if err != nil {
		switch {
		case renderCode(err) == reason.InternalError:
			return nil, fmt.Errorf("rendering template %s: %w", t.Name(), err)
		case matches:
			return []string{err.Error()}, nil
		}
		return nil, nil
	}
	wrong := u.sidecars(t, rendered.Fragment)
	unreached, err := u.unreached(p, t, rendered.Fragment, seen)
	return append(wrong, unreached...), err
}

// entered finds new ephemeral containers that enter a required sidecar: they
// share its processes, and so can change what it does.
func (u *update) entered(sidecars map[string]bool) []string {
	var wrong []string
	for _, c := range u.changed {
		if target, _ := c.container["targetContainerName"].(string); sidecars[target] {
			wrong = append(wrong, fmt.Sprintf("the ephemeral container %s targets the container %s; leave out targetContainerName, or target another container",
				nameOf(c.container), target))
		}
	}
	return wrong
}

// sidecars compares changed sidecars of the template with what it renders.
func (u *update) sidecars(t *templates.Template, fragment map[string]any) []string {
	rendered := containersByName(fragment)
	var wrong []string
	for _, c := range u.changed {
		want := rendered[c.list][nameOf(c.container)]
		image, isSidecar := want["image"].(string)
		if !isSidecar {
			continue
		}
		if u.request.Subresource == "resize" {
			resources := podschema.At("spec.containers[].resources")
			if !t.Verify().AllowsResources() && !podschema.Equal(resources, orEmpty(want["resources"]), orEmpty(c.container["resources"])) {
				wrong = append(wrong, fmt.Sprintf("the container %s would have the resources %s; want %s, as the template renders them (spec.verify.allow.resources could allow others)",
					nameOf(c.container), podschema.Show(c.container["resources"]), podschema.Show(want["resources"])))
			}
			continue
		}
		if got, _ := c.container["image"].(string); got != image && !t.Verify().AllowsImage(got) {
			wrong = append(wrong, fmt.Sprintf("the container %s would have the image %s; want %s, or an image that the template's spec.verify.images allows",
				nameOf(c.container), podschema.Show(got), podschema.Show(image)))
		}
	}
	return wrong
}

func orEmpty(v any) any {
	if v == nil {
		return map[string]any{}
	}
	return v
}

// unreached judges containers that the template left alone when the pod was made,
// because another template's sidecar is not its business: the programs in them may
// not become others. A pod in which no container has what the template gives was
// made without the template.
func (u *update) unreached(p *Pipeline, t *templates.Template, fragment, seen map[string]any) ([]string, error) {
	if u.request.Subresource == "resize" {
		return nil, nil
	}
	extensions, there := map[string]any{}, containersByName(seen)
	for _, list := range []string{"initContainers", "containers"} {
		var items []any
		for _, c := range containersOf(fragment, list) {
			if c["image"] == nil && there[list][nameOf(c)] != nil {
				items = append(items, c)
			}
		}
		if items != nil {
			extensions[list] = items
		}
	}
	if len(extensions) == 0 {
		return nil, nil
	}
	if err := u.work.next("merging what the template " + t.Name() + " wants"); err != nil {
		return nil, err
	}
	plan, err := merge.Merge(u.work.ctx, seen, []merge.Fragment{{Template: t.Name(), OnConflict: merge.Overwrite, Object: map[string]any{"spec": extensions}}}, p.statusKey)
	if err := u.work.ctx.Err(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, nil // the labels or the template have changed since: nothing can be told
	}
	changed := map[string]bool{}
	for _, c := range u.changed {
		changed[c.list+"/"+nameOf(c.container)] = true
	}
	reached := false
	var wrong []string
	for list, items := range extensions {
		for _, item := range items.([]any) {
			name := nameOf(item.(map[string]any))
			lacks := plan.Root.Child("spec").Child(list).Child("name=" + name).Edits()
			switch {
			case !lacks:
				reached = true
			case changed[list+"/"+name]:
				wrong = append(wrong, fmt.Sprintf("the container %s would have another image, without what the template gives to it; "+
					"a pod's other fields cannot change any more: make a new pod", name))
			}
		}
	}
	if !reached {
		return nil, nil
	}
	slices.Sort(wrong)
	return wrong, nil
}

// sidecarsOf returns the names of a required template's own containers. They are
// literal: compiling a required template makes sure of it.
func sidecarsOf(t *templates.Template) map[string]bool {
	var fragment map[string]any
	if err := json.Unmarshal(t.Spec().Inject, &fragment); err != nil {
		return nil // a fragment that is one expression has no literal containers
	}
	names := map[string]bool{}
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range containersOf(fragment, list) {
			if c["image"] != nil {
				names[nameOf(c)] = true
			}
		}
	}
	return names
}

// without returns the pod without the containers of those names.
func without(pod map[string]any, names map[string]bool) map[string]any {
	spec, ok := pod["spec"].(map[string]any)
	if !ok || len(names) == 0 {
		return pod
	}
	pod, spec = maps.Clone(pod), maps.Clone(spec)
	pod["spec"] = spec
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		left := slices.DeleteFunc(slices.Clone(items), func(v any) bool {
			c, _ := v.(map[string]any)
			return names[nameOf(c)]
		})
		if len(left) < len(items) {
			spec[list] = left
		}
	}
	return pod
}

func podLabels(pod map[string]any) map[string]string {
	metadata, _ := pod["metadata"].(map[string]any)
	return stringMap(metadata["labels"])
}

// containersOf returns the objects in a list of the spec of a pod or fragment.
func containersOf(object map[string]any, list string) []map[string]any {
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

// containersByName returns the containers of a pod or fragment by their list and name,
// the first of each name.
func containersByName(object map[string]any) map[string]map[string]map[string]any {
	all := map[string]map[string]map[string]any{}
	for _, list := range []string{"initContainers", "containers"} {
		all[list] = map[string]map[string]any{}
		for _, c := range containersOf(object, list) {
			if name := nameOf(c); all[list][name] == nil {
				all[list][name] = c
			}
		}
	}
	return all
}
