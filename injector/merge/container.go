package merge

import (
	"errors"
	"strings"
)

// containerLists are the lists among which a container's name is unique.
var containerLists = []string{"/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"}

// indexNames notes where each of the pod's containers is.
func (m *merger) indexNames() {
	spec, _ := m.root.fields["spec"].(map[string]any)
	for _, path := range containerLists {
		items, _ := spec[strings.TrimPrefix(path, "/spec/")].([]any)
		for _, item := range items {
			container, _ := item.(map[string]any)
			if name, ok := container["name"].(string); ok {
				m.names[join(path, "name="+name)] = true
			}
		}
	}
}

// holder returns the list that has a container of that key, the given one if
// several do.
func (m *merger) holder(key, preferred string) (path string, ok bool) {
	if m.names[join(preferred, key)] {
		return preferred, true
	}
	for _, path := range containerLists {
		if m.names[join(path, key)] {
			return path, true
		}
	}
	return "", false
}

// isSidecar tells a container to add from the extension of one of the pod's.
func isSidecar(it listItem) bool { return it.raw["image"] != nil }

// ErrNothingToExtend is the error inside a [FragmentError] when a template extends a
// container that the pod does not have.
var ErrNothingToExtend = errors.New("it has no image, so it extends the pod's container of that name, and the pod has none here")

// checkContainers refuses extensions of containers that are not there and
// sidecars whose name another kind of container has; with KeepPod it leaves the
// latter out.
func (m *merger) checkContainers(items []listItem, at place) ([]listItem, error) {
	kept := make([]listItem, 0, len(items))
	for _, it := range items {
		if c := m.claims[join(at.keyed, it.key)]; c.took && c.template != m.frag.Template {
			kept = append(kept, it) // another template took the pod's away: addable decides
			continue
		}
		where, taken := m.holder(it.key, at.keyed)
		here := at.item(it.key, 0).with(it.raw)
		switch {
		case where == at.keyed:
			kept = append(kept, it)
		case !isSidecar(it):
			return nil, &FragmentError{Template: m.frag.Template, Path: readable(here.keyed), Err: ErrNothingToExtend}
		case !taken:
			m.names[join(at.keyed, it.key)] = true
			kept = append(kept, it)
		default:
			if err := m.nameTaken(it, where, here); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}

// nameTaken treats a name among another kind of container. Even Overwrite
// refuses: it would have to remove a container.
func (m *merger) nameTaken(it listItem, where string, here place) error {
	if here.onConflict == Overwrite {
		here.onConflict = Deny
	}
	standing := standing{at: here, value: readable(join(where, it.key))}
	hint := "names are unique among init, app and ephemeral containers"
	_, err := m.conflict(standing, it.value, m.owners[join(where, it.key)], hint)
	return err
}

// mergeContainer treats a container of a name that the list has: the
// extension's fields are merged, a sidecar is one item, unless the container is
// an author's who may override it.
func (m *merger) mergeContainer(l *list, it listItem, at place) error {
	listed := m.owners[at.keyed] != ""
	if m.takenOver(at.keyed) && (m.frag.Overridable || !isSidecar(it)) {
		m.warnOfPods(at, "nothing is added to what template "+m.owners[at.keyed]+" put in the place of the pod's own container")
		return nil
	}
	if isSidecar(it) && (listed || !m.frag.Overridable) {
		return m.mergeWholeItem(l, nil, it, at)
	}
	at = m.inside(at)
	at.stays, at.author = !listed, isSidecar(it)
	return m.mergeObject(m.container, l.object(it.key), it.raw, at)
}
