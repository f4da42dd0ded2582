package merge

import (
	"errors"
)

// containerLists are the lists among which a container's name is unique.
var containerLists = []string{"ephemeralContainers", "initContainers", "containers"}

// containerNames has, by a container's key, the list that it stands in.
type containerNames map[string]string

func namesOf(pod map[string]any) containerNames {
	names := containerNames{}
	spec := objectOf(pod["spec"])
	for _, list := range containerLists {
		items, _ := spec[list].([]any)
		for _, item := range items {
			if name, ok := objectOf(item)["name"].(string); ok {
				names["name="+name] = list
			}
		}
	}
	return names
}

// isSidecar tells a container to add from the extension of one of the pod's.
func isSidecar(it listItem) bool { return it.raw["image"] != nil }

// ErrNothingToExtend is the error inside a [FragmentError] when a template extends a
// container that the pod does not have.
var ErrNothingToExtend = errors.New("it has no image, so it extends the pod's container of that name, and the pod has none here")

// checkContainers refuses extensions of containers that are not there and
// sidecars whose name another kind of container has; with KeepPod it leaves the
// latter out.
func (m *merger) checkContainers(items []listItem, at *place) ([]listItem, error) {
	kept := make([]listItem, 0, len(items))
	for _, it := range items {
		here := at.field(it.key).with(it.raw)
		where, taken := m.names[it.key]
		switch n := here.find(); {
		case n.gone() && !taken:
			kept = append(kept, it) // a template took the pod's away: addable decides
			if isSidecar(it) {
				m.names[it.key] = at.segment
			}
		case taken && where == at.segment:
			kept = append(kept, it)
		case !isSidecar(it):
			return nil, &FragmentError{Template: m.frag.Template, Path: here.String(), Err: ErrNothingToExtend}
		case !taken:
			m.names[it.key] = at.segment
			kept = append(kept, it)
		default:
			if err := m.nameTaken(it, at.parent.field(where).field(it.key), here); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}

// nameTaken treats a name among another kind of container. Even Overwrite
// refuses: it would have to remove a container.
func (m *merger) nameTaken(it listItem, there, here *place) error {
	const hint = "names are unique among init, app and ephemeral containers"
	if n := there.find(); n.ours() && n.was == nil {
		return m.disagree(standing{at: here, value: there.String()}, it.value, n.Templates[0], hint)
	}
	policy := here.onConflict
	if policy == Overwrite {
		policy = Deny
	}
	_, err := m.conflict(policy, standing{at: here}, there.String(), it.value, hint)
	return err
}

// mergeContainer treats a container of a name that the list has: the
// extension's fields are merged, a sidecar is one item, unless the container is
// an author's who may override it.
func (m *listMerger) mergeContainer(it listItem, at *place) error {
	n := at.find()
	ours := n.ours()
	switch {
	case isSidecar(it) && m.frag.Overridable && (!ours || n.was != nil):
		if ours {
			return nil // another template replaces the author's container, which would win here
		}
	case isSidecar(it):
		return m.mergeWholeItem(it, at)
	}
	if n.replaces(m.frag.Template) {
		own := *at
		own.stays = true
		return m.beside(m.list.id.Elem, it.raw, &own)
	}
	inner := *at.inside()
	inner.stays, inner.author = !ours, isSidecar(it)
	return m.mergeObject(m.list.id.Elem, m.list.object(it.key), it.raw, &inner)
}
