package injector

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Verify refuses a final pod, after all webhooks, that is not what the required
// templates make of it. Of an update only images count, with the subresource
// resize only resources, the pod's own among them, and with ephemeralcontainers only new containers that
// enter a required sidecar or mount its volumes. Errors and the end of the context
// are as with [Pipeline.Inject].
func (p *Pipeline) Verify(ctx context.Context, r Request) (Outcome, error) {
	r = r.inNamespace()
	out := Outcome{Allowed: true, Pod: r.Pod}
	k := p.begin(ctx)
	refusals, err := p.wrong(k, r)
	if err != nil || len(refusals) == 0 {
		return k.end(r, out, err)
	}
	out.Allowed, out.Code, out.Refusals = false, reason.RequiredMissing, refusals
	out.Message = fmt.Sprintf("the pod differs from a required template: %s (%s)", sentences(refusals), out.Code)
	return out, nil
}

// Injected returns the hash of each template that the pod's record says it was injected with. A
// record can be forged.
func (p *Pipeline) Injected(pod map[string]any) map[string]string {
	rec, _ := record.ParseMetadata(pod, p.statusKey) // a record that cannot be read counts as none
	return rec.Templates
}

// wrong says in which ways a pod is not what the required templates make of it.
func (p *Pipeline) wrong(k *progress, r Request) ([]TemplateOutcome, error) {
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
	return w.out.Refusals, nil
}

// wrongInUpdate judges an update by what of a pod can still change. Labels and
// annotations may have changed before, and the app's image as well. So the namespace
// alone says which templates count, and a template's containers are known by their
// names: those that a version in force has, and those that the record before the
// update has, which no update may take out. A pod that the template never selected, with a container of such a name, has
// to be made anew for another image.
func (p *Pipeline) wrongInUpdate(k *progress, r Request) ([]TemplateOutcome, error) {
	if slices.Contains(p.config.ExcludedNamespaces, r.Namespace.Name) || p.disabled(r.Namespace) {
		return nil, nil
	}
	u := &update{pipeline: p, progress: k, request: r, changed: changedContainers(r)}
	u.resized = r.Subresource == "resize" && !podschema.Equal(podResources, podResourcesOf(r.Old), podResourcesOf(r.Pod))
	if len(u.changed) == 0 && !u.resized && annotationsOf(r.Old)[p.statusKey] == annotationsOf(r.Pod)[p.statusKey] {
		return nil, nil
	}
	// A record that cannot be read names no sidecars.
	u.was, _ = record.ParseMetadata(r.Old, p.statusKey)
	u.is, _ = record.ParseMetadata(r.Pod, p.statusKey)
	u.base = record.New(p.statusKey).Base(r.Pod)
	var refusals []TemplateOutcome
	for _, place := range r.Templates.Required() {
		e := r.Templates.At(place)
		namespaces, pods, ok := e.Match()
		if !ok || e.Suspended() || !namespaces.Matches(labels.Set(r.Namespace.Labels)) || !e.AvailableTo(r.Namespace.Labels) {
			continue
		}
		selected := (pods.Matches(labels.Set(podLabels(r.Pod))) || pods.Matches(labels.Set(podLabels(r.Old)))) && !exceptedWhenMade(e, r)
		wrong, err := u.judge(e, selected)
		if err != nil {
			return nil, err
		}
		if len(wrong) > 0 {
			refusals = append(refusals, TemplateOutcome{Name: e.Name, Code: reason.RequiredMissing, Asked: true, Why: strings.Join(wrong, "; ")})
		}
	}
	return refusals, nil
}

// exceptedWhenMade reports whether an exception that selects the pod had not ended when the pod was
// created. Such a pod may run without the template, and may be updated after the end as well. A pod
// that has containers of the template is held by their names: to set a label that an exception
// selects gains nothing.
func exceptedWhenMade(e templates.Entry, r Request) bool {
	// API servers let nobody change the time, and the old pod may be known in part.
	metadata, _ := r.Pod["metadata"].(map[string]any)
	text, _ := metadata["creationTimestamp"].(string)
	created, err := time.Parse(time.RFC3339, text)
	exception := e.Exceptions().Find(r.Namespace.Labels, podLabels(r.Old))
	return err == nil && exception != nil && !exception.Ended(created)
}

// update is a change of a running pod.
type update struct {
	pipeline *Pipeline
	progress *progress
	request  Request
	base     map[string]any // the pod without its record
	changed  []changedContainer
	resized  bool // the resources of the pod itself change
	// was and is are the records before and after, without their places in the spec.
	was, is record.Record
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
		for _, c := range itemsOf(r.Old, list) {
			before[nameOf(c)] = c
		}
		for _, c := range itemsOf(r.Pod, list) {
			was, there := before[nameOf(c)]
			if !there || field != "" && !podschema.Equal(podschema.At("spec.containers[]").Child(field), was[field], c[field]) {
				changed = append(changed, changedContainer{list, c})
			}
		}
	}
	return changed
}

// judge says in which ways the changed containers are not as a required template
// wants them. Selected reports whether the template selects the pod by its labels,
// before or after.
func (u *update) judge(e templates.Entry, selected bool) ([]string, error) {
	own := u.request.Templates.Own(e).With(u.was.Required[e.Name])
	e.Template = choose(u.request.Templates, e, u.request.Namespace, u.base).template
	var verify templates.Verify
	if e.Template != nil {
		verify = e.Template.Verify()
	}
	if u.request.Subresource == "ephemeralcontainers" {
		return u.entered(u.was.Required[e.Name], own, verify), nil
	}
	seen := without(u.base, own)
	fragment, fails, err := u.render(e, seen)
	if err != nil {
		return nil, err
	}
	wrong := append(u.forgotten(e.Name), u.sidecars(own, verify, fragment, fails)...)
	// A pod that has a container of the template was made with it.
	has := func(list string) bool {
		return slices.ContainsFunc(itemsOf(u.base, list), func(c map[string]any) bool { return own.Container(nameOf(c)) })
	}
	made := selected || has("initContainers") || has("containers")
	if u.request.Subresource == "resize" {
		_, got := u.was.Required[e.Name]
		if (made || got) && u.resized && own.PodResources() && !verify.AllowsResources() {
			wrong = append(wrong, u.podResources(fragment)...)
		}
		return wrong, nil
	}
	if fails == "" {
		unreached, err := u.unreached(e.Name, fragment, seen)
		return append(wrong, unreached...), err
	}
	isOthers := func(c changedContainer) bool { return !own.Container(nameOf(c.container)) }
	if made && slices.ContainsFunc(u.changed, isOthers) {
		wrong = append(wrong, fails)
	}
	return wrong, nil
}

// render returns what the template renders for the pod as it is now, or why it fails.
func (u *update) render(e templates.Entry, seen map[string]any) (fragment map[string]any, fails string, err error) {
	if e.Template == nil {
		return nil, fmt.Sprintf("it is required here, but no good version of it is known: %v", e.Err), nil
	}
	if err := u.progress.render(e.Name); err != nil {
		return nil, "", err
	}
	rendered, err := e.Template.Render(u.progress.ctx, templates.Input{
		Pod: seen, Namespace: u.request.Namespace, Cache: u.pipeline.cache, IgnoreConditions: true,
	})
	switch {
	case err == nil:
		return rendered.Fragment, "", nil
	case renderCode(err) == reason.InternalError:
		return nil, "", fmt.Errorf("rendering template %s: %w", e.Name, err)
	}
	return nil, strings.TrimPrefix(err.Error(), "template "+e.Name+": "), nil
}

// forgotten finds sidecars that the record would no longer name: from then on nobody could tell that
// they are the template's, once no version in force names them. Of a template without sidecars nobody
// could tell that the pod was made with it.
func (u *update) forgotten(template string) []string {
	var wrong []string
	_, was := u.was.Required[template]
	if _, is := u.is.Required[template]; was && !is && len(u.was.Required[template]) == 0 && u.request.Subresource == "" {
		wrong = append(wrong, fmt.Sprintf("the annotation %s would no longer say that the template was required of the pod; leave the annotation as it is", u.pipeline.statusKey))
	}
	for _, name := range u.was.Required[template] {
		if u.request.Subresource == "" && !slices.Contains(u.is.Required[template], name) {
			wrong = append(wrong, fmt.Sprintf("the annotation %s would no longer say that the template added the container %s; leave the annotation as it is",
				u.pipeline.statusKey, name))
		}
	}
	return wrong
}

// entered finds new ephemeral containers that enter a required sidecar: they share its
// processes, or its files, and so can change what it does. Got are the containers that the pod got.
func (u *update) entered(got []string, own templates.Own, verify templates.Verify) []string {
	gone := u.volumesOfGone(got, own, verify)
	var wrong []string
	for _, c := range u.changed {
		if target, _ := c.container["targetContainerName"].(string); own.Container(target) {
			wrong = append(wrong, fmt.Sprintf("the ephemeral container %s targets the container %s; leave out targetContainerName, or target another container",
				nameOf(c.container), target))
		}
		for _, m := range required.MountsOf(c.container) {
			if (own.Volume(m.Volume) || gone[m.Volume]) && !verify.AllowsMount(m.Path) {
				wrong = append(wrong, fmt.Sprintf("the ephemeral container %s mounts the volume %s, which is the template's: mount another volume, or none (spec.verify.allow.volumeMounts of the template can allow the path)",
					nameOf(c.container), m.Volume))
			}
		}
	}
	return wrong
}

// volumesOfGone returns the volumes of the pod that the containers which it got of the template mount, as
// no version in force would have them do: a version that is gone gave them. What others may add to the
// containers is not the template's.
func (u *update) volumesOfGone(got []string, own templates.Own, verify templates.Verify) map[string]bool {
	gone := map[string]bool{}
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range itemsOf(u.base, list) {
			if !slices.Contains(got, nameOf(c)) {
				continue
			}
			for _, m := range required.MountsOf(c) {
				if !own.Mounts(m.Volume) && !verify.AllowsMount(m.Path) {
					gone[m.Volume] = true
				}
			}
		}
	}
	for _, volume := range itemsOf(u.base, "volumes") {
		if merge.IsTokenVolume(volume) {
			delete(gone, nameOf(volume))
		}
	}
	return gone
}

// sidecars compares changed containers of the template with what it renders. If it fails,
// or does not render a container, only what spec.verify accepts will do: whoever changes
// the container can bring that about first.
func (u *update) sidecars(own templates.Own, verify templates.Verify, fragment map[string]any, fails string) []string {
	rendered := containersByName(fragment)
	instead := "the template does not render it for the pod as it is now"
	if fails != "" {
		instead = "the template fails for the pod as it is now (" + fails + ")"
	}
	var wrong []string
	for _, c := range u.changed {
		name := nameOf(c.container)
		if !own.Container(name) {
			continue
		}
		want := rendered[c.list][name]
		image, isSidecar := want["image"].(string)
		if u.request.Subresource == "resize" {
			resources := podschema.At("spec.containers[].resources")
			switch {
			case verify.AllowsResources(), isSidecar && podschema.Equal(resources, orEmpty(want["resources"]), orEmpty(c.container["resources"])):
			case isSidecar:
				wrong = append(wrong, fmt.Sprintf("the container %s would have the resources %s; must be %s, as the template renders them (spec.verify.allow.resources can allow others)",
					name, podschema.Show(c.container["resources"]), podschema.Show(want["resources"])))
			default:
				wrong = append(wrong, fmt.Sprintf("the container %s would have the resources %s; %s, so leave them as they are (spec.verify.allow.resources can allow others)",
					name, podschema.Show(c.container["resources"]), instead))
			}
			continue
		}
		got, _ := c.container["image"].(string)
		switch {
		case verify.AllowsImage(got), isSidecar && got == image:
		case isSidecar:
			wrong = append(wrong, fmt.Sprintf("the container %s would have the image %s; must be %s, or an image that the template's spec.verify.images allows",
				name, podschema.Show(got), podschema.Show(image)))
		default:
			wrong = append(wrong, fmt.Sprintf("the container %s would have the image %s; %s, so use an image that its spec.verify.images allows, or create a new pod",
				name, podschema.Show(got), instead))
		}
	}
	return wrong
}

var podResources = podschema.At("spec.resources")

// podResources compares the resources of the pod itself with those that the template renders.
// If it renders none for the pod as it is now, they stay as they are.
func (u *update) podResources(fragment map[string]any) []string {
	is, want := podResourcesOf(u.request.Pod), podResourcesOf(fragment)
	rendered := map[string]any{} // what the pod has where the template renders something
	for section, v := range want {
		amounts, _ := v.(map[string]any)
		has, _ := is[section].(map[string]any)
		of := map[string]any{}
		for name := range amounts {
			of[name] = has[name]
		}
		rendered[section] = of
	}
	switch {
	case want == nil:
		return []string{fmt.Sprintf("the pod would have the resources %s; the template does not render them for the pod as it is now, so leave them as they are (spec.verify.allow.resources can allow others)",
			podschema.Show(is))}
	case !podschema.Equal(podResources, rendered, want):
		return []string{fmt.Sprintf("the pod would have the resources %s; must be %s, as the template renders them (spec.verify.allow.resources can allow others)",
			podschema.Show(is), podschema.Show(want))}
	}
	return nil
}

// podResourcesOf returns the resources of a pod or fragment itself.
func podResourcesOf(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	resources, _ := spec["resources"].(map[string]any)
	return resources
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
func (u *update) unreached(template string, fragment, seen map[string]any) ([]string, error) {
	extensions, there := map[string]any{}, containersByName(seen)
	for _, list := range []string{"initContainers", "containers"} {
		var items []any
		for _, c := range itemsOf(fragment, list) {
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
	if err := u.progress.next("merging what the template " + template + " wants"); err != nil {
		return nil, err
	}
	plan, err := merge.Merge(u.progress.ctx, seen, []merge.Fragment{{Template: template, OnConflict: merge.Overwrite, Object: map[string]any{"spec": extensions}}}, u.pipeline.statusKey)
	if err := u.progress.ctx.Err(); err != nil {
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
					"a pod's other fields cannot change any more: create a new pod", name))
			}
		}
	}
	if !reached {
		return nil, nil
	}
	slices.Sort(wrong)
	return wrong, nil
}

// without returns the pod without the template's containers.
func without(pod map[string]any, own templates.Own) map[string]any {
	spec, ok := pod["spec"].(map[string]any)
	if !ok {
		return pod
	}
	pod, spec = maps.Clone(pod), maps.Clone(spec)
	pod["spec"] = spec
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		left := slices.DeleteFunc(slices.Clone(items), func(v any) bool {
			c, _ := v.(map[string]any)
			return own.Container(nameOf(c))
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

// containersByName returns the containers of a pod or fragment by their list and name,
// the first of each name.
func containersByName(object map[string]any) map[string]map[string]map[string]any {
	all := map[string]map[string]map[string]any{}
	for _, list := range []string{"initContainers", "containers"} {
		all[list] = map[string]map[string]any{}
		for _, c := range itemsOf(object, list) {
			if name := nameOf(c); all[list][name] == nil {
				all[list][name] = c
			}
		}
	}
	return all
}
