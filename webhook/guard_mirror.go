package webhook

import (
	"fmt"
	"maps"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// createReadOnly refuses a template whose name the library or a file has, and a mirror that
// Pillion did not make. ok is false for every other one.
func (g guard) createReadOnly(object *objectMeta) (answer Response, ok bool) {
	name := object.Name
	if templates.IsMirror(g.prefix, object.Labels.value) {
		return g.labelIsPillions(name), true
	}
	e, taken := g.options.Templates().Find(name)
	if !g.options.Mirrors || !taken || e.Source == "" || e.Source == templates.ClusterSource+name {
		return Response{}, false
	}
	return refused(reason.TemplateReadOnly, fmt.Sprintf("the name %s is taken by %s, which is in force: this SidecarTemplate would have no effect. Choose another name, or remove that template from the Helm values library and templates", name, e.Source)), true
}

// updateReadOnly answers for a write of a mirror, or of a template that becomes one. ok is
// false for every other write. Who deletes a mirror may have finalizers and owners of it
// changed.
func (g guard) updateReadOnly(old, object *objectMeta, sameSpec bool) (answer Response, ok bool) {
	before, after := templates.IsMirror(g.prefix, old.Labels.value), templates.IsMirror(g.prefix, object.Labels.value)
	switch {
	case !before && !after:
		return Response{}, false
	case !before:
		return g.labelIsPillions(object.Name), true
	}
	if sameSpec && maps.Equal(old.Labels.value, object.Labels.value) && maps.Equal(old.Annotations.value, object.Annotations.value) {
		return Allowed(), true
	}
	return refused(reason.TemplateReadOnly, fmt.Sprintf("the SidecarTemplate %s is a read-only copy of a template that Pillion serves from %s. For a template of your own choose another name, or first remove this one from that Helm value",
		old.Name, g.sourceOf(old))), true
}

// deleteReadOnly answers for the deletion of a mirror, which takes no template out of force.
func (g guard) deleteReadOnly(object *objectMeta) Response {
	e, ok := g.options.Templates().Find(object.Name)
	if !ok || e.Source == templates.ClusterSource+e.Name {
		return Allowed()
	}
	return Allowed(fmt.Sprintf("Pillion creates it again: %s is a copy of a template that Pillion serves from %s. To remove it, change that Helm value", e.Name, g.sourceOf(object)))
}

func (g guard) labelIsPillions(name string) Response {
	return refused(reason.TemplateReadOnly, fmt.Sprintf("the SidecarTemplate %s has the label %s=%s, which marks Pillion's copies of templates of its library and of files. No pod gets a template with that label: remove it",
		name, templates.MirrorLabel(g.prefix), templates.Mirrored))
}

// sourceOf says where a mirror comes from, as it says itself.
func (g guard) sourceOf(mirror *objectMeta) string {
	if source := mirror.Annotations.value[templates.MirrorSourceKey(g.prefix)]; source != "" {
		return source
	}
	return "its library or a file"
}
