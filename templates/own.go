package templates

import (
	"maps"
	"regexp"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// Own tells by list and name the containers and volumes that a required template renders, for
// whatever pod: a condition, a failure or another pod makes no difference.
type Own struct {
	containers map[string]bool // by list and name
	volumes    []*regexp.Regexp
}

// Container reports whether the template renders a container with an image of that name in a list.
// Such names are plain text: compiling a required template makes sure of it.
func (o Own) Container(list, name string) bool { return o.containers[list+"/"+name] }

// Named reports whether the template renders a container of that name in either list.
func (o Own) Named(name string) bool {
	return o.Container("containers", name) || o.Container("initContainers", name)
}

// Volume reports whether the template may render a volume of that name. Any text may stand
// for an expression in the name.
func (o Own) Volume(name string) bool { return anyMatches(o.volumes, name) }

// Own returns the names of a required entry: those of the version in force, of the one before it, and of
// its canaries, since a pod may have been made with each of them.
func (s *Set) Own(e Entry) Own {
	own := e.Own()
	own.add(Entry{Template: e.Previous})
	for _, c := range s.byStable[e.Name] {
		own.add(Entry{Template: c.Version})
	}
	return own
}

func (o *Own) add(e Entry) {
	if e.Template == nil {
		return
	}
	other := e.Own()
	maps.Copy(o.containers, other.containers)
	o.volumes = append(o.volumes, other.volumes...)
}

// Own returns the names of a required entry. Of a template without a good version they are
// those that can be read.
func (e Entry) Own() Own {
	var text []byte
	if t := e.Known(); t != nil {
		text = t.spec.Inject
	}
	spec := injectedSpec(text)
	own := Own{containers: map[string]bool{}}
	for _, list := range containerLists {
		items, _ := spec[list].([]any)
		for _, item := range items {
			container, _ := item.(map[string]any)
			if name, ok := container["name"].(string); ok && container["image"] != nil {
				own.containers[list+"/"+name] = true
			}
		}
	}
	volumes, isList := spec["volumes"].([]any)
	if !isList && spec["volumes"] != nil {
		volumes = []any{nil}
	}
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		if says := directive.Of(volume); says.Delete || says.Marker {
			continue
		}
		name, ok := volume["name"].(string)
		if !ok {
			name = "${name}" // an expression gives the item
		}
		own.volumes = append(own.volumes, renderedName(name))
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

// renderedName compiles a name in a manifest to an expression for what it may be rendered to.
func renderedName(text string) *regexp.Regexp {
	parts, _ := expression.Scan(text) // compiling the template has said what is wrong with it
	var name strings.Builder
	for _, p := range parts {
		if p.IsExpr {
			name.WriteString(anyText)
		} else {
			name.WriteString(regexp.QuoteMeta(p.Text))
		}
	}
	return regexp.MustCompile(`(?s)\A` + name.String() + `\z`)
}
