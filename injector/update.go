package injector

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// An update of a running pod may add no difference. A difference counts if [required.Required] finds it in the
// new pod and not in the old one, and if the update changes the value.
//
// A container with a name of a version in force stays as rendered, or as spec.verify allows, even if the
// template does not render it for the pod as it is now: an update could cause that. No new ephemeral container
// may enter such a container, or mount the template's volumes.

// verifyUpdate verifies an update by the fields that can still change: images, with the subresource resize
// resources, and with ephemeralcontainers new containers.
func (c *call) verifyUpdate() ([]TemplateOutcome, error) {
	r := c.request
	if slices.Contains(c.config.ExcludedNamespaces, r.Namespace.Name) || c.pipeline.disabled(r.Namespace) {
		return nil, nil
	}
	changed := changedContainers(r)
	resized := r.Subresource == "resize" && !podschema.Equal(podschema.At("spec.resources"), resourcesOf(r.Old), resourcesOf(r.Pod))
	if len(changed) == 0 && !resized {
		return nil, nil
	}
	if r.Subresource == "ephemeralcontainers" {
		return c.verifyEphemeral(changed), nil
	}
	entries := c.requiredOfUpdated()
	before, err := c.requireOfUpdated(r.Old, entries)
	if err != nil {
		return nil, err
	}
	after, err := c.requireOfUpdated(r.Pod, entries)
	if err != nil {
		return nil, err
	}
	refusals := c.refusalsOf(after, c.added(before, after, changed), record.New())
	refusals = slices.DeleteFunc(refusals, func(t TemplateOutcome) bool {
		entry, _ := r.Templates.Get(t.Name)
		own := r.Templates.Own(entry, r.Now)
		others := resized || slices.ContainsFunc(changed, func(one container) bool { return !own.Named(nameOf(one.value)) })
		return isRefusedBefore(before, after, t) || t.Code != reason.RequiredMissing && !others // [call.verifyNamed] handles the template's own
	})
	for _, e := range r.Templates.Required() {
		if !c.requiredIn(e) {
			continue
		}
		wrong := c.verifyNamed(e, changed, after)
		if e.Template == nil && slices.ContainsFunc(entries, func(o templates.Entry) bool { return o.Name == e.Name }) {
			wrong = append(wrong, fmt.Sprintf(brokenRequired, e.Err))
		}
		if len(wrong) > 0 {
			refusals = append(refusals, TemplateOutcome{Name: e.Name, Code: reason.RequiredMissing, Requested: true, Why: strings.Join(wrong, "; ")})
		}
	}
	return refusals, nil
}

// requiredOfUpdated returns the templates that are required of a running pod: those that select its labels
// before or after the update, and those with a container in it, because no update can remove a container.
func (c *call) requiredOfUpdated() []templates.Entry {
	r := c.request
	var entries []templates.Entry
	for _, e := range r.Templates.Required() {
		if !c.requiredIn(e) {
			continue
		}
		own := r.Templates.Own(e, r.Now)
		has := func(list string) bool {
			return slices.ContainsFunc(itemsOf(r.Pod, list), func(c map[string]any) bool { return own.Container(list, nameOf(c)) })
		}
		selected := (selects(e, r.Pod) || selects(e, r.Old)) && !wasExcepted(e, r)
		if selected || has("containers") || has("initContainers") {
			entries = append(entries, e)
		}
	}
	return entries
}

// wasExcepted reports whether an exception that selects the pod was in force when the pod was created. Such a
// pod may run without the template, and may still be updated after the exception ended. A pod that has
// containers of the template is recognized by their names, so setting a label that an exception selects does
// not help.
func wasExcepted(e templates.Entry, r Request) bool {
	// API servers do not let users change the creation time, and the old pod may be incomplete.
	metadata, _ := r.Pod["metadata"].(map[string]any)
	text, _ := metadata["creationTimestamp"].(string)
	created, err := time.Parse(time.RFC3339, text)
	exception := e.Exceptions().Find(r.Namespace.Labels, podLabels(r.Old))
	return err == nil && exception != nil && !exception.Ended(created)
}

// requireOfUpdated compares a running pod with its required templates.
func (c *call) requireOfUpdated(pod map[string]any, entries []templates.Entry) (requiredResult, error) {
	creation := *c
	creation.request.Operation, creation.request.Subresource, creation.updates = "CREATE", "", true
	base, _, a, err := creation.applyOrdinary(pod)
	if err != nil {
		return requiredResult{}, err
	}
	good := slices.DeleteFunc(slices.Clone(entries), func(e templates.Entry) bool { return e.Template == nil })
	return creation.require(base, pod, good, a)
}

// isRefusedBefore reports whether a required template refuses the pod before the update for the same reason: its
// validations, or the operating system. It reports false for a template that fails, so no update passes then.
func isRefusedBefore(before, after requiredResult, t TemplateOutcome) bool {
	was := before.turn(t.Name)
	switch t.Code {
	case reason.ValidationFailed:
		return !slices.ContainsFunc(after.turn(t.Name).invalid, func(name string) bool { return !slices.Contains(was.invalid, name) })
	case reason.OtherSystem:
		return was.refuses && was.outcome.Code == reason.OtherSystem
	}
	return false
}

// turn returns the turn of a template, a zero turn for none.
func (r requiredResult) turn(template string) turn {
	if i := slices.IndexFunc(r.turns, func(t turn) bool { return t.outcome.Name == template }); i >= 0 {
		return r.turns[i]
	}
	return turn{}
}

// added returns the differences of the new pod that the old one lacks and that the update causes.
func (c *call) added(before, after requiredResult, changed []container) []required.Difference {
	old := map[string]bool{}
	for _, d := range slices.Concat(before.Differences, before.Missing) {
		old[d.Template+" "+d.String()] = true
	}
	var added []required.Difference
	for _, d := range slices.Concat(after.Differences, after.Missing) {
		entry, _ := c.request.Templates.Get(d.Template)
		version := after.turn(d.Template).outcome.template
		accepted := isPodResources(d.Path) && version.Verify().AllowsResources() || c.isNamed(d.Path, c.request.Templates.Own(entry, c.request.Now), changed)
		if !old[d.Template+" "+d.String()] && !accepted && c.changes(d.Path) {
			added = append(added, d)
		}
	}
	return added
}

// isNamed reports whether [call.verifyNamed] handles the difference.
func (c *call) isNamed(path *podschema.Path, own templates.Own, changed []container) bool {
	field := "image"
	if c.request.Subresource == "resize" {
		field = "resources"
	}
	segments := path.Segments()
	return len(segments) > 3 && segments[3] == field && slices.ContainsFunc(changed, func(one container) bool {
		return one.list == segments[1] && "name="+nameOf(one.value) == segments[2] && own.Named(nameOf(one.value))
	})
}

func isPodResources(path *podschema.Path) bool {
	for ; path != nil; path = path.Parent() {
		if path.Is("spec", "resources") {
			return true
		}
	}
	return false
}

// changes reports whether the update changes the value at a place, or removes it. A template's rendering may
// depend on an image that the update changes. The update is not to blame for values that it leaves alone.
func (c *call) changes(path *podschema.Path) bool {
	now := podschema.LookUp(c.request.Pod, path.Segments())
	return now == nil || !podschema.Equal(nil, podschema.LookUp(c.request.Old, path.Segments()), now)
}

// container is a container that an update changes, in its list.
type container struct {
	list  string
	value map[string]any
}

// changedContainers returns the containers that the update changes, as far as its subresource can: images,
// resources, or new ephemeral containers.
func changedContainers(r Request) []container {
	lists, field := []string{"initContainers", "containers"}, "image"
	switch r.Subresource {
	case "resize":
		field = "resources"
	case "ephemeralcontainers":
		lists, field = []string{"ephemeralContainers"}, ""
	}
	var changed []container
	for _, list := range lists {
		before := map[string]map[string]any{}
		for _, c := range itemsOf(r.Old, list) {
			before[nameOf(c)] = c
		}
		for _, c := range itemsOf(r.Pod, list) {
			was, there := before[nameOf(c)]
			if !there || field != "" && !podschema.Equal(podschema.At("spec.containers[]").Child(field), was[field], c[field]) {
				changed = append(changed, container{list, c})
			}
		}
	}
	return changed
}

// verifyEphemeral refuses new ephemeral containers that enter a required sidecar: they share its processes or its
// files, and could change its behaviour.
func (c *call) verifyEphemeral(changed []container) []TemplateOutcome {
	var refusals []TemplateOutcome
	for _, e := range c.request.Templates.Required() {
		if !c.requiredIn(e) {
			continue
		}
		own, verify := c.request.Templates.Own(e, c.request.Now), verifyOf(e)
		var wrong []string
		for _, one := range changed {
			if target, _ := one.value["targetContainerName"].(string); own.Named(target) {
				wrong = append(wrong, fmt.Sprintf(entersContainer, nameOf(one.value), target))
			}
			for _, m := range required.MountsOf(one.value) {
				if own.Volume(m.Volume) && !verify.AllowsMount(m.Path) {
					wrong = append(wrong, fmt.Sprintf(mountsVolume, nameOf(one.value), m.Volume))
				}
			}
		}
		if len(wrong) > 0 {
			refusals = append(refusals, TemplateOutcome{Name: e.Name, Code: reason.RequiredMissing, Requested: true, Why: strings.Join(wrong, "; ")})
		}
	}
	return refusals
}

func verifyOf(e templates.Entry) templates.Verify {
	if e.Template == nil {
		return templates.Verify{}
	}
	return e.Template.Verify()
}

// verifyNamed compares changed containers with the rendering of the template that owns their names. If the template
// fails or does not render the container, only values that spec.verify allows are accepted.
func (c *call) verifyNamed(e templates.Entry, changed []container, after requiredResult) []string {
	own, verify := c.request.Templates.Own(e, c.request.Now), verifyOf(e)
	t := after.turn(e.Name)
	if t.outcome.template != nil {
		verify = t.outcome.template.Verify()
	}
	instead := notRendered
	if t.fragment == nil && t.refuses {
		instead = fmt.Sprintf(failsNow, t.outcome.Why)
	}
	var wrong []string
	for _, one := range changed {
		name := nameOf(one.value)
		if !own.Named(name) {
			continue
		}
		want, rendered := t.fragment.Field("spec", one.list).Item("name=" + name).JSON().(map[string]any)
		field, allowed := "image", verify.AllowsImage(fmt.Sprint(one.value["image"]))
		accepts := allowedImage
		if c.request.Subresource == "resize" {
			field, allowed, accepts = "resources", verify.AllowsResources(), allowedAmount
		}
		typ := podschema.At("spec.containers[]").Child(field)
		switch {
		case allowed, rendered && podschema.Equal(typ, orEmpty(want[field]), orEmpty(one.value[field])):
		case rendered:
			wrong = append(wrong, fmt.Sprintf(otherValue, name, field, podschema.Show(one.value[field]), podschema.Show(want[field]), accepts))
		default:
			wrong = append(wrong, fmt.Sprintf(notAllowedValue, name, field, podschema.Show(one.value[field]), instead, accepts))
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

// resourcesOf returns the resources of a pod of its own.
func resourcesOf(object map[string]any) map[string]any {
	return podschema.ObjectOf(podschema.ObjectOf(object["spec"])["resources"])
}

// itemsOf returns the objects in a list of the spec of a pod.
func itemsOf(pod map[string]any, list string) []map[string]any {
	return podschema.ObjectsIn(podschema.ObjectOf(pod["spec"]), list)
}

func nameOf(item map[string]any) string { name, _ := item["name"].(string); return name }
