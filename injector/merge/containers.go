package merge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// containerLists are the lists that share the names of containers.
var containerLists = []string{"ephemeralContainers", "initContainers", "containers"}

// namesOf returns the list of each container of the pod, by name. It returns nil for a fragment without
// containers.
func namesOf(pod map[string]any, f *fragment.Node) map[string]string {
	if f.Field("spec", "containers") == nil && f.Field("spec", "initContainers") == nil {
		return nil
	}
	names := map[string]string{}
	spec := podschema.ObjectOf(pod["spec"])
	for _, list := range containerLists {
		for _, item := range podschema.ListOf(spec[list]) {
			if name, ok := podschema.ObjectOf(item)["name"].(string); ok {
				names[name] = list
			}
		}
	}
	return names
}

// route returns the fields of the fragment's spec. An item that extends a container moves to the list of that
// container. A sidecar with the name of another kind of container is left out.
func (m *merger) route(spec *fragment.Node, at place) ([]fragment.Field, error) {
	items := map[string][]fragment.Item{}
	for _, list := range []string{"containers", "initContainers"} {
		for _, it := range spec.Field(list).List() {
			if name := strings.TrimPrefix(it.Key, "name="); it.Delete && it.Conflict != directive.KeepPod && m.names[name] == list {
				delete(m.names, name) // the other list may have the name
			}
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		for _, it := range spec.Field(list).List() {
			to, err := m.listFor(list, it, at)
			if err != nil {
				return nil, err
			}
			if to != "" {
				items[to] = append(items[to], it)
			}
		}
	}
	var parts []fragment.Field
	for _, f := range spec.Fields {
		if f.Name != "containers" && f.Name != "initContainers" || f.Replace || f.Delete {
			parts = append(parts, f)
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		if len(items[list]) > 0 && (spec.Field(list) == nil || !spec.Field(list).Replace) {
			parts = append(parts, fragment.Field{Name: list, Node: &fragment.Node{Kind: fragment.List, Type: podschema.At("spec." + list), Items: items[list]}})
		}
	}
	slices.SortFunc(parts, func(a, b fragment.Field) int { return strings.Compare(a.Name, b.Name) })
	return parts, nil
}

// listFor returns the list of the pod for an item in a list of the fragment, "" for none.
func (m *merger) listFor(list string, it fragment.Item, at place) (string, error) {
	name := strings.TrimPrefix(it.Key, "name=")
	there, taken := m.names[name]
	switch {
	case it.Delete:
		return list, nil
	case !it.IsSidecar():
		if !taken || there == "ephemeralContainers" {
			return m.nothingToExtend(list, it, at)
		}
		return there, nil
	case !taken:
		m.names[name] = list
		return list, nil
	case there == list:
		return list, nil
	}
	m.nameTaken(list, there, it, at)
	return "", nil
}

// nameTaken reports a conflict for a sidecar with the name of another kind of container. Overwrite does not
// help, because it would remove a container.
func (m *merger) nameTaken(list, there string, it fragment.Item, at place) {
	here, other := at.field(list).item(it.Key).with(it.Node), at.field(there).item(it.Key)
	stands := other.path.Readable()
	if by := other.wrote(); by != "" {
		m.disagree(here, by, stands, it.JSON(), hintNames)
		return
	}
	policy := here.policy
	if policy == directive.Overwrite || m.template.Required {
		policy = directive.Deny
	}
	m.overrules(here, policy, stands, it.JSON(), hintNames)
}

// nothingToExtend returns an error that lists the pod's containers.
func (m *merger) nothingToExtend(list string, it fragment.Item, at place) (string, error) {
	for _, in := range []string{"containers", "initContainers"} {
		if w := at.field(in).item(it.Key).writers; w != nil && w.deleted {
			m.disagree(at.field(in).item(it.Key), w.by, nil, it.JSON(), hintDeletes)
			return "", nil
		}
	}
	const most = 10
	var there []string
	for _, in := range []string{"containers", "initContainers"} {
		kind := ""
		if in == "initContainers" {
			kind = " (init)"
		}
		for _, item := range podschema.ListOf(podschema.ObjectOf(m.pod["spec"])[in]) {
			if name, ok := podschema.ObjectOf(item)["name"].(string); ok && len(there) <= most {
				there = append(there, podschema.Show(name)+kind)
			}
		}
	}
	if len(there) > most {
		there[most] = "…"
	}
	at = at.field(list).item(it.Key)
	return "", &FragmentError{Template: m.template.Name, Path: at.path.Readable(), Err: fmt.Errorf(containersHave, ErrNothingToExtend, strings.Join(there, ", "))}
}

// container merges an item into the container of its name. It merges an extension's fields. A sidecar is one
// value, unless it overrides an author's container. It reports whether the container moves to the item's
// position.
func (l *list) container(i int, it fragment.Item, at place) (moves bool, err error) {
	written := at.wrote() != ""
	if !it.IsSidecar() {
		at.own = !written
		return false, l.parts(i, it, at)
	}
	if l.template.Overridable && !written {
		at.own, at.author = true, true
		if err := l.parts(i, it, at); err != nil {
			return false, err
		}
		return l.standsElsewhere(it), nil
	}
	want := it.JSON()
	if l.isEqual(podschema.ObjectOf(l.now[i]), it, at) {
		l.agree(at, l.id.Elem, want)
		return false, nil
	}
	hint := ""
	if it.Field("restartPolicy").JSON() == "Always" && podschema.ObjectOf(l.now[i])["restartPolicy"] == "Always" {
		hint = hintCopy
	}
	if l.settle(meeting{at: at, t: l.id.Elem, now: l.now[i], want: want, hint: hint}) {
		l.replace(i, at, l.withToken(podschema.ObjectOf(want)))
	}
	return false, nil
}

// isEqual reports whether a container equals the sidecar: image, command, args and restartPolicy agree, and
// merging the sidecar into the container changes nothing. Additions by others, such as the token's mount, are
// allowed.
func (l *list) isEqual(now map[string]any, it fragment.Item, at place) bool {
	t := l.id.Elem
	for _, name := range []string{"image", "command", "args", "restartPolicy"} {
		if !podschema.Equal(t.Child(name), now[name], it.Field(name).JSON()) {
			return false
		}
	}
	alone := &merger{ctx: l.ctx, base: l.base, pod: l.pod, template: l.template}
	merged, err := alone.object(t, now, it.Node, place{path: at.path, policy: directive.Deny})
	return err == nil && isSame(merged, now) && len(alone.result.Conflicts) == 0
}

// standsElsewhere reports whether the $position of an item differs from the item's index.
func (l *list) standsElsewhere(it fragment.Item) bool {
	if it.Position.Kind == directive.Default {
		return false
	}
	i := l.index[it.Key]
	rest := slices.Delete(slices.Clone(l.now), i, i+1)
	n := fragment.Scalar(l.id.Elem, l.now[i])
	n.Position = it.Position
	placed, stray := fragment.Insert(l.id, rest, l.front(), []fragment.Item{{Key: it.Key, Node: n}})
	if len(stray) > 0 {
		return false
	}
	return podschema.IndexIn(l.id, placed, map[string]bool{it.Key: true})[it.Key] != i
}
