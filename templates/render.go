package templates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Namespace has the metadata of a pod's namespace that templates see.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
}

// object returns the namespace for expressions.
func (n Namespace) object() map[string]any {
	return map[string]any{"metadata": map[string]any{"name": n.Name, "labels": orEmpty(n.Labels), "annotations": orEmpty(n.Annotations)}}
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// Input is the pod for which a template is rendered.
type Input struct {
	// Pod is the pod after the earlier templates.
	Pod map[string]any
	// Author is the pod as its author wrote it, whose annotations set parameters. Nil means Pod.
	Author    map[string]any
	Namespace Namespace
	// Budget is shared by all templates of a review. Nil means that this render has its own.
	Budget *Budget
	// Sidecar reports whether a container is another template's sidecar, and not the app's. Nil means none.
	Sidecar func(container map[string]any) bool
	// IgnoreValidations renders the fragment although validations are false.
	IgnoreValidations bool
}

// annotations returns the annotations of the pod and its namespace.
func (in Input) annotations() param.Annotations {
	author := in.Author
	if author == nil {
		author = in.Pod
	}
	metadata, _ := author["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	pod := make(map[string]string, len(annotations))
	for key, value := range annotations {
		if text, ok := value.(string); ok {
			pod[key] = text
		}
	}
	return param.Annotations{Namespace: in.Namespace.Annotations, Pod: pod}
}

// Budget bounds the cost of the expressions of all templates of a review. The zero value is unspent. It is not
// safe for concurrent use.
type Budget = expression.Budget

// Rendered is a template rendered for one pod.
type Rendered struct {
	// Fragment is the fragment to merge. Nil if there is none.
	Fragment *fragment.Node
	// Files are the template's files in Fragment. Nil if there are none.
	Files *Files
	// Unmet is the first false matchCondition, or nil. If it is set, there is no fragment.
	Unmet *v1alpha1.MatchCondition
	// Invalid are the validations that are false for the pod.
	Invalid []Invalid
	// Params are the parameters with a value, by name: string, int64, float64, bool, []any, map[string]any, or
	// any JSON.
	Params map[string]any
	// Origins has the source of each of Params.
	Origins map[string]Origin
}

// renderer is the state of one render.
type renderer struct {
	template *Template
	params   *param.Values
	pod      map[string]any
	sidecar  func(container map[string]any) bool
	run      *expression.Run
	// extensions are the rendered items with $each.
	extensions []extension
}

// extension is an item that extends a container of the pod.
type extension struct {
	item       *item
	list, name string
	node       *fragment.Node
}

// containerLists are the lists whose containers can be extended.
var containerLists = []string{"initContainers", "containers"}

// Render renders the template for a pod. It returns a *ParameterError (a team's mistake), a *RenderError (the
// template fails for this pod, or is too expensive), or the error of a context that has ended. It does not
// modify the input, and the result shares no memory with it.
func (t *Template) Render(ctx context.Context, in Input) (*Rendered, error) {
	params, err := t.parameters.Resolve(in.annotations())
	if err != nil {
		return nil, err
	}
	return t.renderWith(ctx, in, params)
}

// renderWith renders with resolved parameters. It evaluates conditions and validations first, because the
// fragment may fail for a pod that they exclude.
func (t *Template) renderWith(ctx context.Context, in Input, params *param.Values) (*Rendered, error) {
	out := &Rendered{Params: params.ByName, Origins: params.Origins}
	run := t.names.Run(ctx, cmp.Or(in.Budget, &expression.Budget{}), in.Pod, in.Namespace.object(), params.ByName)
	r := &renderer{template: t, params: params, pod: in.Pod, sidecar: in.Sidecar, run: run}
	s := r.run.Scope()
	for i, condition := range t.conditions {
		holds, err := condition.Condition(s)
		if err != nil {
			return nil, r.error(err)
		}
		if !holds {
			out.Unmet = &t.spec.MatchConditions[i]
			return out, nil
		}
	}
	var err error
	if out.Invalid, err = t.invalid(s); err == nil && (len(out.Invalid) == 0 || in.IgnoreValidations) {
		out.Fragment, err = r.fragment(s)
	}
	if err == nil && out.Fragment != nil {
		out.Files, err = r.addFiles(out.Fragment, s)
	}
	if err == nil {
		err = run.End()
	}
	if err != nil {
		return nil, r.error(err)
	}
	return out, nil
}

// fragment renders the tree. It returns nil for an empty fragment.
func (r *renderer) fragment(s *expression.Scope) (*fragment.Node, error) {
	out, err := r.template.tree.render(r, s)
	if err != nil {
		return nil, err
	}
	if out == nil {
		out = &fragment.Node{Kind: fragment.Object, Type: podschema.Pod()}
	}
	if err := r.addExtensions(out); err != nil {
		return nil, err
	}
	if out.IsBlank() {
		return nil, nil
	}
	if r.template.spec.ContainerSecurity == v1alpha1.SecurityRestricted {
		if err := r.restrict(out); err != nil {
			return nil, err
		}
	}
	return out, r.checkReserved(out)
}

// addExtensions adds the items of $each to the lists of containers, and combines the items for one container. A
// sidecar of the fragment with the container's name stays as it is.
func (r *renderer) addExtensions(out *fragment.Node) error {
	if len(r.extensions) == 0 {
		return nil
	}
	sidecars, extended := map[string]bool{}, map[string]*fragment.Node{}
	for _, list := range containerLists {
		for _, it := range out.Field("spec", list).List() {
			if it.IsSidecar() || it.Delete {
				sidecars[list+"/"+it.Key] = true
			} else {
				extended[it.Key] = it.Node
			}
		}
	}
	for _, e := range r.extensions {
		key := "name=" + e.name
		switch there := extended[key]; {
		case sidecars[e.list+"/"+key]: // the sidecar stays as it is, and a deleted item stays deleted
		case there != nil:
			if err := there.Combine(e.node, "container "+show.Value(e.name)); err != nil {
				return &expression.Error{Place: e.item.Place, Message: "two items with $each " + err.Error()}
			}
		default:
			extended[key] = e.node
			list := out.Enter("spec").Enter(e.list)
			list.Items = append(list.Items, fragment.Item{Key: key, Node: e.node})
		}
	}
	return nil
}

// containers returns the pod's containers of one list. It leaves out containers without a name, which the API
// server refuses with a better message.
func (r *renderer) containers(list string) []map[string]any {
	spec, _ := r.pod["spec"].(map[string]any)
	items, _ := spec[list].([]any)
	containers := make([]map[string]any, 0, len(items))
	for _, item := range items {
		c, _ := item.(map[string]any)
		if name, ok := c["name"].(string); ok && name != "" {
			containers = append(containers, c)
		}
	}
	return containers
}

// checkReserved refuses Pillion's own labels and annotations.
func (r *renderer) checkReserved(f *fragment.Node) error {
	for _, field := range []string{"annotations", "labels"} {
		entries := f.Field("metadata", field)
		if entries == nil {
			continue
		}
		keys := slices.Clone(entries.Unset)
		for _, e := range entries.Fields {
			keys = append(keys, e.Name)
		}
		for _, key := range keys {
			if r.template.isReserved(key) {
				at := (*manifest.Path)(nil).Fields("spec", "inject", "metadata", field)
				return &expression.Error{Place: expression.Place{At: at, Line: r.template.reservedLine[field]}, Message: fmt.Sprintf("the key %s is reserved for Pillion", show.Value(key))}
			}
		}
	}
	return nil
}

// isReserved reports whether a key is under Pillion's prefix, or under a template's part of it.
func (t *Template) isReserved(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == v1alpha1.Group || strings.HasSuffix(domain, "."+v1alpha1.Group))
}

// error converts an error of the tree to one of [Template.Render]'s.
func (r *renderer) error(err error) error {
	var failed *expression.Error
	if errors.As(err, &failed) {
		return &RenderError{Template: r.template.name, Path: failed.At.String(), Line: failed.Line, Message: failed.Message, TooExpensive: failed.TooExpensive}
	}
	return err
}
