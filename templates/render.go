package templates

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types/ref"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/param"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// MatchCondition is a condition as the manifest has it.
type MatchCondition = v1alpha1.MatchCondition

// Namespace is what templates see of a pod's namespace.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
}

// Input is the pod to render a template for.
type Input struct {
	// Pod is the base pod: the pod without Pillion's earlier changes.
	Pod       map[string]any
	Namespace Namespace
	// IgnoreConditions makes Render skip the matchConditions.
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
	// Unmet is the first matchCondition that is false, or nil. If it is set, there is no
	// fragment.
	Unmet *MatchCondition
	// Params are the parameters that have a value, by name: string, int64,
	// float64, bool, []any, map[string]any, or any JSON.
	Params map[string]any
	// Origins says for each of Params where its value comes from.
	Origins map[string]Origin
	// Warnings are for the pod's author, one sentence each.
	Warnings []string
}

// renderer is the state of one render.
type renderer struct {
	template                          *Template
	pod, namespace, params, variables ref.Val
	rawPod                            map[string]any
	// cost is what all evaluations have cost so far.
	cost uint64
	left budget
	// fatal is the error of a bound that was passed. No expression can catch it.
	fatal error
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
// team's mistake), a *RenderError (the template fails for this pod) or a
// *TooExpensiveError. The input is not modified, and the result shares nothing
// with it but the values of Params.
func (t *Template) Render(in Input) (*Rendered, error) {
	resolved, err := t.parameters.Resolve(in.annotations())
	if err != nil {
		return nil, err
	}
	return t.renderWith(in, resolved)
}

// renderWith renders with parameters that are already known.
func (t *Template) renderWith(in Input, params *param.Values) (*Rendered, error) {
	out := &Rendered{Params: params.ByName, Origins: params.Origins, Warnings: params.Warnings}
	r := t.newRenderer(in, params)
	s := &scope{render: r}
	for i, condition := range t.conditions {
		if in.IgnoreConditions {
			break
		}
		holds, err := condition.condition(s)
		if err != nil {
			return nil, r.error(err)
		}
		if !holds {
			out.Unmet = &t.spec.MatchConditions[i]
			return out, nil
		}
	}
	fragment, err := r.fragment(s)
	if err != nil {
		return nil, r.error(err)
	}
	out.Fragment = fragment
	return out, nil
}

func (t *Template) newRenderer(in Input, params *param.Values) *renderer {
	r := &renderer{
		template: t, rawPod: in.Pod, left: budget{bytes: MaxRenderedBytes},
		pod: adapt(in.Pod),
		namespace: adapt(map[string]any{"metadata": map[string]any{
			"name": in.Namespace.Name, "labels": orEmpty(in.Namespace.Labels), "annotations": orEmpty(in.Namespace.Annotations),
		}}),
		params: &object{
			typ: paramsValueType, names: t.parameters.Names(),
			has: func(name string) bool { _, ok := params.ByName[name]; return ok },
			get: func(name string) (any, error) {
				v, ok := params.ByName[name]
				if !ok {
					return nil, fmt.Errorf("the parameter %s is not set; ask has(params.%s), or read params.?%s", name, name, name)
				}
				return v, nil
			},
		},
	}
	r.variables = r.lazyVariables()
	return r
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func adapt(v any) ref.Val { return adapter{}.NativeToValue(v) }

// lazyVariables returns the variables, each evaluated when it is first read.
func (r *renderer) lazyVariables() ref.Val {
	t := r.template
	values := make(map[string]ref.Val, len(t.variables))
	s := &scope{render: r}
	return &object{
		typ: variablesValueType, names: t.variableNames,
		has: func(name string) bool { _, ok := t.variables[name]; return ok },
		get: func(name string) (any, error) {
			if v, ok := values[name]; ok {
				return v, nil
			}
			e, ok := t.variables[name]
			if !ok {
				return nil, fmt.Errorf("no such variable: %s", name)
			}
			v, err := e.evaluate(s)
			if err != nil {
				return nil, fmt.Errorf("variable %s: %w", name, err)
			}
			values[name] = v
			return v, nil
		},
	}
}

// fragment renders the tree. It returns nil if nothing is left of it.
func (r *renderer) fragment(s *scope) (map[string]any, error) {
	v, err := r.template.tree.render(s)
	if err != nil {
		return nil, err
	}
	out, _ := v.(map[string]any)
	if err := r.addExtensions(&out); err != nil {
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
	return out, r.checkReserved(out)
}

// addExtensions puts what $each made into the lists of containers.
func (r *renderer) addExtensions(out *map[string]any) error {
	for _, e := range r.extensions {
		if *out == nil {
			*out = map[string]any{}
		}
		spec, ok := (*out)["spec"].(map[string]any)
		if !ok {
			spec = map[string]any{}
			(*out)["spec"] = spec
		}
		items, _ := spec[e.list].([]any)
		extended, err := addExtension(items, e)
		if err != nil {
			return &failure{at: e.item.at, line: e.item.line, message: err.Error()}
		}
		if len(extended) > 0 {
			spec[e.list] = extended
		}
	}
	return nil
}

// addExtension adds one extension, or combines it with another of the same container. If
// the fragment has a sidecar of the container's name, the sidecar stays as it is.
func addExtension(items []any, e extension) ([]any, error) {
	for _, item := range items {
		there, ok := item.(map[string]any)
		if !ok || there["name"] != e.name {
			continue
		}
		if there["image"] != nil {
			return items, nil
		}
		return items, combine(there, e.object, containerType(), "container "+show.Value(e.name))
	}
	return append(items, e.object), nil
}

func containerType() *podschema.Type {
	spec, _ := podschema.Pod().Field("spec")
	containers, _ := spec.Field("containers")
	return containers.Elem()
}

// combine adds from to into, both objects of the type t, which may be nil. They
// must not disagree.
func combine(into, from map[string]any, t *podschema.Type, where string) error {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		there, ok := into[key]
		if !ok {
			into[key] = from[key]
			continue
		}
		var elem *podschema.Type
		if t != nil {
			elem, _ = entryType(t, key)
		}
		combined, err := combineValue(there, from[key], elem, where+", "+key)
		if err != nil {
			return err
		}
		into[key] = combined
	}
	return nil
}

func combineValue(a, b any, t *podschema.Type, where string) (any, error) {
	if reflect.DeepEqual(a, b) {
		return a, nil
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return x, combine(x, y, t, where)
		}
	case []any:
		if y, ok := b.([]any); ok && t != nil && t.Elem().Kind() == podschema.Struct {
			return combineItems(x, y, t, where)
		}
	}
	return nil, fmt.Errorf("two items with $each give different values to %s", where)
}

func combineItems(a, b []any, t *podschema.Type, where string) ([]any, error) {
	q := &sequence{typ: t}
	for _, item := range b {
		at := indexOfKey(q, a, item)
		if at < 0 {
			a = append(a, item)
			continue
		}
		if !reflect.DeepEqual(a[at], item) {
			return nil, fmt.Errorf("two items with $each give different values to %s", where)
		}
	}
	return a, nil
}

// indexOfKey returns the index of the item with item's keys, or -1.
func indexOfKey(q *sequence, items []any, item any) int {
	m, ok := item.(map[string]any)
	if !ok || len(q.typ.Keys()) == 0 {
		return -1
	}
	for i, other := range items {
		if o, ok := other.(map[string]any); ok && q.sameKeys(m, o) {
			return i
		}
	}
	return -1
}

// containers returns the base pod's containers of one list. It leaves out containers
// without a name: the API server refuses them with a better message.
func (r *renderer) containers(list string) []map[string]any {
	spec, _ := r.rawPod["spec"].(map[string]any)
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
		for _, key := range append(slices.Sorted(maps.Keys(entries)), directive.UnsetFields(entries)...) {
			if r.template.isReserved(key) {
				at := (*manifest.Path)(nil).Fields("spec", "inject", "metadata", field)
				return &failure{at: at, line: r.template.reservedLine[field], message: fmt.Sprintf("the key %s is reserved for Pillion", show.Value(key))}
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
	if r.fatal != nil {
		return r.fatal
	}
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	if r.left.bytes < 0 {
		return &TooExpensiveError{Template: r.template.name, Path: f.at.String(), Line: f.line, Message: fmt.Sprintf("the fragment is larger than %d bytes", MaxRenderedBytes)}
	}
	return &RenderError{Template: r.template.name, Path: f.at.String(), Line: f.line, Message: f.message}
}
