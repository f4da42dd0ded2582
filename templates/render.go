package templates

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/memo"
	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Namespace is what templates see of a pod's namespace.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
}

// object returns the namespace as expressions see it.
func (n Namespace) object() map[string]any {
	return map[string]any{"metadata": map[string]any{"name": n.Name, "labels": orEmpty(n.Labels), "annotations": orEmpty(n.Annotations)}}
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// Input is the pod to render a template for.
type Input struct {
	// Pod is the base pod: the pod without Pillion's earlier changes.
	Pod       map[string]any
	Namespace Namespace
	// Cache keeps what does not depend on the pod. Nil keeps nothing.
	Cache *Cache
	// IgnoreConditions makes Render skip the matchConditions and the validations.
	IgnoreConditions bool
}

// annotations returns the annotations of the pod and its namespace.
func (in Input) annotations() param.Annotations {
	metadata, _ := in.Pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	pod := make(map[string]string, len(annotations))
	for key, value := range annotations {
		if text, ok := value.(string); ok {
			pod[key] = text
		}
	}
	return param.Annotations{Namespace: in.Namespace.Annotations, Pod: pod}
}

// Rendered is a template rendered for one pod.
type Rendered struct {
	// Fragment is the fragment to merge, {"metadata": …, "spec": …}. Nil if there is
	// nothing to merge.
	Fragment map[string]any
	// Files are what Fragment has of the template's files. Nil if there are none.
	Files *Files
	// Memo knows the values in Fragment that are the same for all pods with the same
	// parameters.
	Memo memo.Tables
	// Unmet is the first matchCondition that is false, or nil. If it is set, there is no
	// fragment.
	Unmet *v1alpha1.MatchCondition
	// Invalid are the validations that are false for the pod.
	Invalid []Invalid
	// Params are the parameters that have a value, by name: string, int64,
	// float64, bool, []any, map[string]any, or any JSON.
	Params map[string]any
	// Origins says for each of Params where its value comes from.
	Origins map[string]Origin
}

// renderer is the state of one render.
type renderer struct {
	template *Template
	made     *made
	pod      map[string]any
	run      *expression.Run
	// extensions are what $each makes of the pod's containers.
	extensions []extension
}

// extension is an item that extends a container of the base pod.
type extension struct {
	item       *item
	list, name string
	object     map[string]any
}

// containerLists are the lists whose containers can be extended.
var containerLists = []string{"initContainers", "containers"}

// Render renders the template for a pod. Its error is a *ParameterError (a
// team's mistake), a *RenderError (the template fails for this pod, or is too expensive),
// or that of the context, which has ended. The input is not modified.
// The result must not be: other pods with the same parameters share it.
func (t *Template) Render(ctx context.Context, in Input) (*Rendered, error) {
	m, err := t.made(in)
	if err != nil {
		return nil, err
	}
	return t.renderWith(ctx, in, m)
}

// renderWith renders with parameters that are already known.
func (t *Template) renderWith(ctx context.Context, in Input, m *made) (*Rendered, error) {
	params := m.params
	out := &Rendered{Params: params.ByName, Origins: params.Origins}
	r := &renderer{template: t, made: m, pod: in.Pod, run: t.names.Run(ctx, in.Pod, in.Namespace.object(), params.ByName)}
	s := r.run.Scope()
	for i, condition := range t.conditions {
		if in.IgnoreConditions {
			break
		}
		holds, err := condition.Condition(s)
		if err != nil {
			return nil, r.error(err)
		}
		if !holds {
			out.Unmet = &t.spec.MatchConditions[i]
			return out, nil
		}
	}
	if !in.IgnoreConditions {
		invalid, err := t.invalid(s)
		if err != nil {
			return nil, r.error(err)
		}
		out.Invalid = invalid
	}
	fragment, err := r.fragment(s)
	if err == nil && fragment != nil {
		out.Files, err = r.addFiles(fragment, s)
	}
	if err != nil {
		return nil, r.error(err)
	}
	out.Fragment, out.Memo = m.settled(fragment, r.run)
	return out, nil
}

// fragment renders the tree. It returns nil if nothing is left of it.
func (r *renderer) fragment(s *expression.Scope) (map[string]any, error) {
	v, err := r.template.rendered.render(r, s)
	if err != nil {
		return nil, err
	}
	out, _ := v.(map[string]any)
	if out, err = r.addExtensions(maps.Clone(out)); err != nil {
		return nil, err
	}
	for _, root := range []string{"metadata", "spec"} {
		if m, ok := out[root].(map[string]any); ok && !hasFields(m) {
			delete(out, root)
		}
	}
	if !hasFields(out) {
		return nil, nil
	}
	if r.template.spec.ContainerSecurity == v1alpha1.SecurityRestricted {
		if err := r.restrict(out); err != nil {
			return nil, err
		}
	}
	return out, r.checkReserved(out)
}

// addExtensions puts what $each made into the lists of containers.
func (r *renderer) addExtensions(out map[string]any) (map[string]any, error) {
	if len(r.extensions) == 0 {
		return out, nil
	}
	if out == nil {
		out = map[string]any{}
	}
	spec, ok := out["spec"].(map[string]any)
	if spec = maps.Clone(spec); !ok {
		spec = map[string]any{}
	}
	out["spec"] = spec
	lists := map[string]*extended{}
	for _, list := range containerLists {
		items, _ := spec[list].([]any)
		lists[list] = extendedOf(items)
	}
	for _, e := range r.extensions {
		list := lists[e.list]
		for _, other := range containerLists {
			if !list.extends(e.name) && lists[other].extends(e.name) {
				list = lists[other]
			}
		}
		if err := list.add(e); err != nil {
			return nil, &expression.Error{Place: e.item.Place, Message: err.Error()}
		}
	}
	for name, list := range lists {
		if list.changed {
			spec[name] = list.items
		}
	}
	return out, nil
}

// extended is one list of containers while extensions are put into it.
type extended struct {
	items  []any
	byName map[string]int // the first of each name
	// changed is set when an extension was put in.
	changed bool
}

func extendedOf(items []any) *extended {
	l := &extended{items: slices.Clone(items), byName: make(map[string]int, len(items))}
	for i := range items {
		l.note(i)
	}
	return l
}

func (l *extended) note(i int) {
	container, _ := l.items[i].(map[string]any)
	if name, ok := container["name"].(string); ok {
		if _, have := l.byName[name]; !have {
			l.byName[name] = i
		}
	}
}

// extends reports whether an item of the list extends the container of the name.
func (l *extended) extends(name string) bool {
	i, have := l.byName[name]
	return have && l.items[i].(map[string]any)["image"] == nil && !directive.Of(l.items[i]).Delete
}

// add adds one extension, or combines it with another of the same container. If
// the fragment has a sidecar of the container's name, the sidecar stays as it is.
func (l *extended) add(e extension) error {
	i, have := l.byName[e.name]
	if !have {
		l.changed = true
		l.items = append(l.items, e.object)
		l.note(len(l.items) - 1)
		return nil
	}
	there := l.items[i].(map[string]any)
	if there["image"] != nil {
		return nil
	}
	combined, err := combine(there, e.object, podschema.At("spec.containers[]"), "container "+show.Value(e.name))
	l.items[i], l.changed = combined, true
	return err
}

// combine returns into with from added, both objects of the type t, which may be nil. They
// must not disagree.
func combine(into, from map[string]any, t *podschema.Type, where string) (map[string]any, error) {
	into = maps.Clone(into)
	for _, key := range slices.Sorted(maps.Keys(from)) {
		there, ok := into[key]
		if !ok {
			into[key] = from[key]
			continue
		}
		combined, err := combineValue(there, from[key], t.Child(key), where+", "+key)
		if err != nil {
			return nil, err
		}
		into[key] = combined
	}
	return into, nil
}

func combineValue(a, b any, t *podschema.Type, where string) (any, error) {
	if reflect.DeepEqual(a, b) {
		return a, nil
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return combine(x, y, t, where)
		}
	case []any:
		if y, ok := b.([]any); ok && t != nil && t.Elem().Kind() == podschema.Struct {
			return combineItems(x, y, t, where)
		}
	}
	return nil, fmt.Errorf("two items with $each give different values to %s", where)
}

// combineItems adds the items of b to those of a, both of the list type t. Two items that
// append to one variable both stay.
func combineItems(a, b []any, t *podschema.Type, where string) ([]any, error) {
	a = slices.Clone(a)
	first := map[string]int{}
	for i, item := range a {
		if key, ok := keyOf(t, item); ok {
			if _, have := first[key]; !have {
				first[key] = i
			}
		}
	}
	for _, item := range b {
		key, keyed := keyOf(t, item)
		at, have := first[key]
		switch {
		case !keyed:
			a = append(a, item)
		case !have:
			first[key] = len(a)
			a = append(a, item)
		case reflect.DeepEqual(a[at], item):
		case directive.Joins(a[at]) && directive.Joins(item):
			a = append(a, item)
		default:
			return nil, fmt.Errorf("two items with $each give different values to %s", where)
		}
	}
	return a, nil
}

// containers returns the base pod's containers of one list. It leaves out containers
// without a name: the API server refuses them with a better message.
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

// checkReserved refuses labels and annotations that are Pillion's own.
func (r *renderer) checkReserved(fragment map[string]any) error {
	metadata, _ := fragment["metadata"].(map[string]any)
	for _, field := range []string{"annotations", "labels"} {
		entries, _ := metadata[field].(map[string]any)
		for _, key := range append(slices.Sorted(maps.Keys(entries)), directive.Of(entries).Unset...) {
			if r.template.isReserved(key) {
				at := (*manifest.Path)(nil).Fields("spec", "inject", "metadata", field)
				return &expression.Error{Place: expression.Place{At: at, Line: r.template.reservedLine[field]}, Message: fmt.Sprintf("the key %s is reserved for Pillion", show.Value(key))}
			}
		}
	}
	return nil
}

// isReserved reports whether a key is under the annotation prefix, or under a
// template's part of it.
func (t *Template) isReserved(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == t.prefix || strings.HasSuffix(domain, "."+t.prefix))
}

// error turns an error of the tree into one of [Template.Render]'s.
func (r *renderer) error(err error) error {
	var failed *expression.Error
	if errors.As(err, &failed) {
		return &RenderError{Template: r.template.name, Path: failed.At.String(), Line: failed.Line, Message: failed.Message, TooExpensive: failed.TooExpensive}
	}
	return err
}
