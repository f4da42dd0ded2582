package required

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Allowed is what spec.verify of a template lets others do to its sidecars and mounts.
type Allowed interface {
	AllowsImage(image string) bool
	AllowsEnv(name string) bool
	AllowsMount(path string) bool
	AllowsResources() bool
	AllowsProbes() bool
}

// Own tells which containers and volumes are a template's, for whatever pod.
type Own interface {
	Container(list, name string) bool
	Volume(name string) bool
}

// Template is a template that is required of the pod.
type Template struct {
	Name string
	// Render renders the template for the pod as the required templates before left it. Its error ends
	// [Required].
	Render func(pod map[string]any) (Rendering, error)
}

// Rendering is the version of a template that the pod gets, rendered for it.
type Rendering struct {
	// Fragment is nil if the template gives the pod nothing.
	Fragment         *fragment.Node
	KeepPodResources bool
	Allowed          Allowed
}

// Difference is one difference between a pod and a required template.
type Difference struct {
	Template string
	Path     *podschema.Path
	// Text describes the difference at Path.
	Text string
}

// Result is the result of [Required].
type Result struct {
	// Pod is the pod with the additions of the required templates. Operations is the JSON patch that leads to
	// it.
	Pod        map[string]any
	Operations []patch.Operation
	// Writes are what each template adds, for the record.
	Writes map[string][]merge.Write
	// Missing are the additions, Differences the contradictions. The pod is verified if both are empty.
	Missing, Differences []Difference
}

// ownLists are the lists of a pod's spec in which a template has items of its own.
var ownLists = []string{"initContainers", "containers", "volumes"}

func has(o Own, list, name string) bool {
	if list == "volumes" {
		return o.Volume(name)
	}
	return o.Container(list, name)
}

// Strip returns the pod without the own containers and volumes of the templates. The pod is not
// modified.
func Strip(pod map[string]any, own []Own) map[string]any {
	spec, ok := pod["spec"].(map[string]any)
	if !ok || len(own) == 0 {
		return pod
	}
	stripped := maps.Clone(spec)
	for _, list := range ownLists {
		items := podschema.ListOf(spec[list])
		left := slices.DeleteFunc(slices.Clone(items), func(v any) bool {
			name, _ := podschema.ObjectOf(v)["name"].(string)
			return slices.ContainsFunc(own, func(o Own) bool { return has(o, list, name) })
		})
		if len(left) < len(items) {
			stripped[list] = left
		}
	}
	if maps.EqualFunc(stripped, spec, func(a, b any) bool { return len(podschema.ListOf(a)) == len(podschema.ListOf(b)) }) {
		return pod
	}
	pod = maps.Clone(pod)
	pod["spec"] = stripped
	return pod
}

// Required merges the required templates, in order, into a pod that all other templates have changed. Own
// has the containers and volumes of each template: Required strips them from the pod that the templates
// see. The base pod gives the indexes of removed items, the writers the other template that a difference
// names. Required returns the error of a Render, of a merge, or of the context.
func Required(ctx context.Context, s merge.State, all []Template, own []Own) (Result, error) {
	pod := s.Pod
	r := &comparison{ctx: ctx, pod: pod, allowed: map[string]Allowed{}}
	r.expected = expectation{mounts: map[string]map[string]string{}, variables: map[string]map[string]string{}, volumes: map[string]string{}, own: map[string]bool{}}
	r.result = Result{Pod: pod, Writes: map[string][]merge.Write{}}
	merged, w := Strip(pod, own), &merge.Writers{}
	if s.Writers != nil {
		w = s.Writers.Copy()
	}
	for _, t := range all {
		rendering, err := t.Render(merged)
		if err != nil {
			return Result{}, err
		}
		f := rendering.Fragment
		if f == nil {
			continue
		}
		result, err := merge.Merge(ctx, merge.State{Base: s.Base, Pod: merged, Writers: w}, f, merge.Template{Name: t.Name, Required: true, KeepPodResources: rendering.KeepPodResources})
		if err != nil {
			return Result{}, err
		}
		r.allowed[t.Name] = rendering.Allowed
		for _, c := range result.Conflicts {
			r.result.Differences = append(r.result.Differences, Difference{c.Template, c.Path, conflictText(c)})
		}
		w.Add(t.Name, result.Writes)
		r.result.Writes[t.Name] = result.Writes
		r.expected.add(t.Name, f)
		merged = result.Pod
	}
	if err := r.add(merged, all); err != nil {
		return Result{}, err
	}
	r.names(all, own)
	r.positions()
	r.others()
	return r.result, ctx.Err()
}

// comparison compares a pod with the fragments of the required templates.
type comparison struct {
	ctx      context.Context
	pod      map[string]any
	allowed  map[string]Allowed
	expected expectation
	tokens   map[string]bool // the pod's volumes of a service account's token, by name
	result   Result
}

// expectation indexes the fragments of the required templates.
type expectation struct {
	items []ownItem
	own   map[string]bool // the list and key of each item
	// mounts has the template of each mount in a container that is no template's own, by the container's
	// name and by list and key; a termination message's file is a mount of the key of its field.
	mounts map[string]map[string]string
	// variables has the template of each variable in such a container, by the container's name.
	variables map[string]map[string]string
	// volumes has the template of each volume.
	volumes map[string]string
}

// ownItem is a container or a volume that a template renders.
type ownItem struct {
	template, list, key string
	node                *fragment.Node
}

func (w *expectation) add(template string, f *fragment.Node) {
	for _, list := range []string{"initContainers", "containers"} {
		for _, it := range f.Field("spec", list).List() {
			switch {
			case it.Delete:
			case it.IsSidecar():
				w.item(ownItem{template, list, it.Key, it.Node})
			default:
				w.extension(template, strings.TrimPrefix(it.Key, "name="), it.Node)
			}
		}
	}
	for _, it := range f.Field("spec", "volumes").List() {
		if !it.Delete {
			w.item(ownItem{template, "volumes", it.Key, it.Node})
			w.volumes[strings.TrimPrefix(it.Key, "name=")] = template
		}
	}
}

func (w *expectation) item(it ownItem) {
	w.items = append(w.items, it)
	w.own[it.list+"/"+it.key] = true
}

func (w *expectation) extension(template, name string, n *fragment.Node) {
	if w.mounts[name] == nil {
		w.mounts[name], w.variables[name] = map[string]string{}, map[string]string{}
	}
	for _, it := range n.Field("env").List() {
		if !it.Delete {
			w.variables[name][strings.TrimPrefix(it.Key, "name=")] = template
		}
	}
	for _, list := range []string{"volumeMounts", "volumeDevices"} {
		for _, it := range n.Field(list).List() {
			if !it.Delete {
				w.mounts[name][list+"/"+it.Key] = template
			}
		}
	}
	if n.Field(messagesField) != nil {
		w.mounts[name][messagesField] = template
	}
}

var specPath = (*podschema.Path)(nil).Field("spec")

func (i ownItem) path() *podschema.Path { return specPath.Field(i.list).Key(i.key) }

func (r *comparison) differs(template string, at *podschema.Path, format string, args ...any) {
	r.result.Differences = append(r.result.Differences, Difference{template, at, fmt.Sprintf(format, args...)})
}

// add compares the templates' own items with the pod's, and adds the missing ones.
func (r *comparison) add(merged map[string]any, all []Template) error {
	there := map[string]bool{}
	for _, it := range r.expected.items {
		if is, ok := itemOf(r.pod, it.list, it.key); ok {
			there[it.path().String()] = true
			if want, ok := itemOf(merged, it.list, it.key); ok { // else a conflict has been told
				r.compareItem(it, want, is)
			}
		}
	}
	w := &apply.Target{Pod: merged}
	for _, t := range all {
		writes := slices.DeleteFunc(slices.Clone(r.result.Writes[t.Name]), func(one merge.Write) bool {
			return inOwn(there, one.Path) || one.Value != nil && podschema.Equal(one.Type, podschema.LookUp(r.pod, one.Path.Segments()), one.Value)
		})
		r.result.Writes[t.Name] = writes
		w.Add(t.Name, writes)
		for _, one := range writes {
			r.missing(t.Name, one)
		}
	}
	result, err := apply.Apply(r.ctx, r.pod, record.New(), w)
	r.result.Pod, r.result.Operations = result.Pod, result.Operations
	return err
}

// inOwn reports whether a place is one of the own items that the pod has, or inside one.
func inOwn(there map[string]bool, path *podschema.Path) bool {
	for ; path != nil; path = path.Parent() {
		if path.Parent() != nil && path.Parent().Parent() != nil && path.Parent().Parent().Parent() == nil {
			return there[path.String()]
		}
	}
	return false
}

// missing adds a difference for a write that the pod lacks.
func (r *comparison) missing(template string, w merge.Write) {
	d := Difference{Template: template, Path: w.Path}
	switch w.Effect {
	case merge.Added:
		d.Text = isMissing
	case merge.Replaced, merge.Appended:
		d.Text = fmt.Sprintf(isOther, shown(w.Was), podschema.Show(w.Value))
	case merge.Removed:
		d.Text = isRemoved
	default:
		return
	}
	r.result.Missing = append(r.result.Missing, d)
}

func (r *comparison) compareItem(it ownItem, want, is any) {
	if it.list != "volumes" {
		r.container(it, podschema.ObjectOf(want), podschema.ObjectOf(is))
		return
	}
	if !podschema.Equal(podschema.At("spec.volumes[]"), want, is) {
		r.differs(it.template, it.path(), isOther, podschema.Show(is), podschema.Show(want))
	}
}

// names finds containers and volumes with a name of a template that renders none of that name for this pod.
// The templates do not see them, so nothing else would judge them.
func (r *comparison) names(all []Template, own []Own) {
	for _, list := range ownLists {
		for _, item := range podschema.ListOf(podschema.ObjectOf(r.pod["spec"])[list]) {
			name, _ := podschema.ObjectOf(item)["name"].(string)
			i := slices.IndexFunc(own, func(o Own) bool { return has(o, list, name) })
			if i >= 0 && !r.expected.own[list+"/name="+name] {
				r.differs(all[i].Name, specPath.Field(list).Key("name="+name), hasOwnName)
			}
		}
	}
}

// positions compares where the own containers stand with where their templates want them.
func (r *comparison) positions() {
	for _, list := range []string{"initContainers", "containers"} {
		id, _ := podschema.At("spec." + list).Identity()
		items := podschema.ListOf(podschema.ObjectOf(r.result.Pod["spec"])[list])
		asked, front := map[string]bool{}, map[string]bool{}
		for _, it := range r.expected.items {
			if it.list == list && it.node.Position.Kind != directive.Default {
				asked[it.key], asked["name="+it.node.Position.Anchor] = true, true
				front[it.key] = it.node.Position.Kind == directive.First
			}
		}
		if len(asked) == 0 {
			continue
		}
		index := podschema.IndexIn(id, items, asked)
		before := slices.IndexFunc(items, func(item any) bool { key, _ := id.Key(item); return !front[key] })
		for _, it := range r.expected.items {
			i, have := index[it.key]
			if it.list == list && have {
				r.position(it, i, before, items, index)
			}
		}
	}
}

// position compares the place i of an item. Before is the place of the first item that is not one of
// those in front.
func (r *comparison) position(it ownItem, i, before int, items []any, index map[string]int) {
	p := it.node.Position
	j, there := index["name="+p.Anchor]
	switch {
	case p.Kind == directive.First && before >= 0 && before < i:
		r.differs(it.template, it.path(), mustBeFirst, nameOf(items[before]))
	case there && p.Kind == directive.Before && i > j:
		r.differs(it.template, it.path(), mustComeBefore, podschema.Clip(p.Anchor))
	case there && p.Kind == directive.After && i < j:
		r.differs(it.template, it.path(), mustComeAfter, podschema.Clip(p.Anchor))
	}
}

// itemOf returns the item of a key in a list of the pod's spec: of several the first that is not as the others
// cannot be, so the API refuses such pods.
func itemOf(pod map[string]any, list, key string) (any, bool) {
	id, _ := podschema.At("spec." + list).Identity()
	items := podschema.ListOf(podschema.ObjectOf(pod["spec"])[list])
	i, ok := podschema.IndexIn(id, items, map[string]bool{key: true})[key]
	if !ok {
		return nil, false
	}
	return items[i], true
}
