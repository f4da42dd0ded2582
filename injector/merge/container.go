package merge

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
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
func isSidecar(it listItem) bool { return it.field("image") != nil }

// ErrNothingToExtend is the error inside a [FragmentError] when a template extends a
// container that the pod does not have.
var ErrNothingToExtend = errors.New("it has no image, so it extends the pod's container of that name, and the pod has none, neither among its containers nor among its initContainers")

// nothingToExtend says which containers there are instead.
func (m *merger) nothingToExtend(at *place) error {
	const most = 10
	var there []string
	for _, list := range []string{"containers", "initContainers"} {
		kind := ""
		if list == "initContainers" {
			kind = " (init)"
		}
		items, _ := objectOf(m.root.fields["spec"])[list].([]any)
		for _, item := range items {
			if len(there) > most {
				break
			}
			if name, ok := objectOf(item)["name"].(string); ok {
				there = append(there, podschema.Show(name)+kind)
			}
		}
	}
	if len(there) > most {
		there[most] = "…"
	}
	return &FragmentError{Template: m.frag.Template, Path: at.String(), Err: fmt.Errorf("%w; it has %s", ErrNothingToExtend, strings.Join(there, ", "))}
}

// checkContainers refuses extensions of containers that are not there and
// sidecars whose name another kind of container has; with KeepPod it leaves the
// latter out. It returns apart the extensions of containers that stand in another list.
func (m *merger) checkContainers(items []listItem, at *place) (here []listItem, elsewhere map[string][]listItem, err error) {
	here = make([]listItem, 0, len(items))
	for _, it := range items {
		at := at.field(it.key).with(it.node)
		where, taken := m.names[it.key]
		switch n := at.find(); {
		case n.gone() && !taken:
			here = append(here, it) // a template took the pod's away: addable decides
			if isSidecar(it) {
				m.names[it.key] = at.parent.segment
			}
		case taken && where == at.parent.segment:
			here = append(here, it)
		case !isSidecar(it):
			list := m.listOfExtended(it, at)
			if list == "" {
				return nil, nil, m.nothingToExtend(at)
			}
			if elsewhere == nil {
				elsewhere = map[string][]listItem{}
			}
			elsewhere[list] = append(elsewhere[list], it)
		case !taken:
			m.names[it.key] = at.parent.segment
			here = append(here, it)
		default:
			if err := m.nameTaken(it, at.parent.parent.field(where).field(it.key), at); err != nil {
				return nil, nil, err
			}
		}
	}
	return here, elsewhere, nil
}

// listOfExtended returns the other list in which a container stands that an item at the
// place extends, or stood until a template took it away. It returns "" for none.
func (m *merger) listOfExtended(it listItem, at *place) string {
	other := "containers"
	if at.parent.segment == other {
		other = "initContainers"
	}
	if m.names[it.key] == other || at.parent.parent.field(other).field(it.key).find().gone() {
		return other
	}
	return ""
}

// nameTaken treats a name among another kind of container. Even Overwrite
// refuses: it would have to remove a container.
func (m *merger) nameTaken(it listItem, there, here *place) error {
	const hint = "names are unique among init, app and ephemeral containers"
	if n := there.find(); n.ours() && n.was == nil {
		return m.disagree(existing{at: here, value: there.String()}, it.value, n.Templates[0], hint)
	}
	policy := here.onConflict
	if policy == Overwrite {
		policy = Deny
	}
	_, err := m.conflict(policy, existing{at: here}, there.String(), it.value, hint)
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
		return m.beside(m.list.id.Elem, it.node, &own)
	}
	inner := *at.inside()
	inner.stays, inner.author = !ours, isSidecar(it)
	return m.mergeObject(m.list.id.Elem, m.list.object(it.key), it.node, &inner)
}
