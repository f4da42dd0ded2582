package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// writeNamespaced answers for a template of a namespace that is created or updated.
func (g guard) writeNamespaced(ctx context.Context, r *Review) (Response, error) {
	object, spec, err := readWrite(r, v1alpha1.NamespacedKind)
	if err != nil || object == nil {
		return Allowed(), err
	}
	refuse := func(problem string) (Response, error) {
		return invalidTemplate(templates.CompileError{Template: object.Name, Problems: []templates.Problem{{Message: problem}}}), nil
	}
	if r.Operation == "CREATE" && g.options.Namespaced != nil && g.options.Namespaced(r.Namespace) >= templates.MaxInNamespace {
		return refuse(fmt.Sprintf("namespace %s has %d templates of its own, and may have no more; delete one first", r.Namespace, templates.MaxInNamespace))
	}
	if err := templates.TooLarge(spec); err != nil {
		return refuse(err.Error())
	}
	options := g.options.Compile
	options.Source = templates.SourceIn(r.Namespace, object.Name)
	_, warnings, mistakes := g.compile(ctx, r.Object, options)
	if mistakes != nil {
		return invalidTemplate(*mistakes), nil
	}
	if _, shadowed := g.options.Templates().Find(object.Name); shadowed {
		warnings = append(warnings, fmt.Sprintf("a template of the cluster has the name %s, and counts; this object has no effect", object.Name))
	}
	if slices.Contains(g.options.ExcludedNamespaces, r.Namespace) {
		warnings = append(warnings, fmt.Sprintf("namespace %s is excluded (excludedNamespaces, or Pillion's own), so no pod there is injected; this object has no effect", r.Namespace))
	}
	return Allowed(warnings...), nil
}
