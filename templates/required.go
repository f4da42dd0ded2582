package templates

import (
	"cmp"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// RequiredLabel returns the key of the label that Pillion keeps on the namespaces that a
// required template selects. No namespace selector of a template may name it.
func RequiredLabel(prefix string) string { return cmp.Or(prefix, DefaultPrefix) + "/required" }

// VerifiedIn reports whether final pods of a namespace are verified: a required template
// selects it. Of a template without a good version the selector counts as far as it is
// known, since its pods are refused. A suspended template verifies nothing.
//
// A namespace without a name is one that the API server has yet to name, from its
// generateName. The label kubernetes.io/metadata.name then says nothing, and whatever a
// selector needs of it counts as met.
func (s *Set) VerifiedIn(namespace Namespace) bool {
	return s.selects(namespace, true)
}

// MatchedIn reports whether a template in force selects the namespace without being asked
// for, whatever the labels of its pods are. Suspended templates and required ones do not
// count: for these there is [Set.VerifiedIn], which also says what a namespace without a
// name is.
func (s *Set) MatchedIn(namespace Namespace) bool {
	return s.selects(namespace, false)
}

// selects reports whether an entry that is not suspended selects the namespace, of those that
// are required or of the others.
func (s *Set) selects(namespace Namespace, required bool) bool {
	if s.own != nil && s.own.selects(namespace, required) {
		return true
	}
	found := false
	is := func(place int) bool {
		e := s.entries[place]
		found = e.Required() == required && !e.Suspended()
		return !found
	}
	if namespace.Name != "" {
		s.selecting.each(namespace.Labels, nil, is)
		return found
	}
	for place, selected := range s.selecting.selected {
		if mayMatch(selected.namespace, namespace.Labels) && !is(place) {
			break
		}
	}
	return found
}

// mayMatch reports whether a selector may match a namespace that has yet to get its name.
func mayMatch(selector labels.Selector, namespace map[string]string) bool {
	requirements, selectable := selector.Requirements()
	for _, r := range requirements {
		if r.Key() != corev1.LabelMetadataName && !r.Matches(labels.Set(namespace)) {
			return false
		}
	}
	return selectable
}

// Own has the list and name of each container and volume that a required template may render, such as
// "volumes/data": a condition, a failure or another pod makes no difference.
type Own map[string]bool

// Container reports whether the template may render a container with an image of that name in a list.
func (o Own) Container(list, name string) bool { return o[list+"/"+name] }

// Named reports whether the template may render a container of that name in either list.
func (o Own) Named(name string) bool {
	return o.Container("containers", name) || o.Container("initContainers", name)
}

// Volume reports whether the template may render a volume of that name.
func (o Own) Volume(name string) bool { return o["volumes/"+name] }

// Own returns the names of a required entry: those of the version in force, of the one before it while that
// one counts, and of its canaries, since a pod may have been made with each of them.
func (s *Set) Own(e Entry, now time.Time) Own {
	own := e.Own()
	if before := e.Before(now); before != nil {
		maps.Copy(own, Entry{Template: before}.Own())
	}
	for _, c := range s.byStable[e.Name] {
		maps.Copy(own, Entry{Template: c.Version}.Own())
	}
	return own
}

// Own returns the names of a required entry. Of a template without a good version they are
// those that can be read.
func (e Entry) Own() Own {
	var text []byte
	if t := e.Known(); t != nil {
		text = t.spec.Inject
	}
	spec := injectedSpec(text)
	own := Own{}
	for _, list := range []string{"initContainers", "containers", "volumes"} {
		items, _ := spec[list].([]any)
		for _, v := range items {
			item, _ := v.(map[string]any)
			name, ok := item["name"].(string)
			if says := directive.Of(item); ok && !says.Delete && !says.Marker && (list == "volumes" || item["image"] != nil) {
				own[list+"/"+name] = true
			}
		}
	}
	return own
}

// injectedSpec returns the spec in a fragment as the manifest has it, as far as that is written out.
// The fragment of a broken template may be anything.
func injectedSpec(inject []byte) map[string]any {
	v, _ := rawjson.Decode(inject)
	fragment, _ := v.(map[string]any)
	spec, _ := fragment["spec"].(map[string]any)
	return spec
}
