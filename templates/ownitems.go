package templates

import (
	"maps"
	"time"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// Own has the list and name of each container and volume that a required template may render for any pod, such
// as "volumes/data". Conditions and failures do not matter.
type Own map[string]bool

// Container reports whether the template may render a container with an image of that name in a list.
func (o Own) Container(list, name string) bool { return o[list+"/"+name] }

// Named reports whether the template may render a container of that name in either list.
func (o Own) Named(name string) bool {
	return o.Container("containers", name) || o.Container("initContainers", name)
}

// Volume reports whether the template may render a volume of that name.
func (o Own) Volume(name string) bool { return o["volumes/"+name] }

// Own returns the own items of a required entry: those of the version in force, of the earlier version during
// [EditGrace], and of its canaries, because a pod may have been created with any of them.
func (s *Set) Own(e Entry, now time.Time) Own {
	own := e.Own()
	if before := e.Before(now); before != nil {
		maps.Copy(own, Entry{Template: before}.Own())
	}
	for _, c := range s.CanariesOf(e.Name) {
		maps.Copy(own, Entry{Template: c.Version}.Own())
	}
	return own
}

// Own returns the own items of a required entry. For a template without a good version it returns the readable
// ones.
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

// injectedSpec returns the spec in a manifest's fragment, as far as it is literal. The fragment of a broken
// template may be anything.
func injectedSpec(inject []byte) map[string]any {
	v, _ := rawjson.Decode(inject)
	fragment, _ := v.(map[string]any)
	spec, _ := fragment["spec"].(map[string]any)
	return spec
}
