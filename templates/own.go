package templates

import (
	"maps"
	"regexp"
	"strings"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/rawjson"
)

// Own tells by their names the containers and volumes that a required template renders,
// for whatever pod: a condition, a failure or another pod makes no difference.
type Own struct {
	containers map[string]bool
	volumes    []*regexp.Regexp
	// mounted are the names of the volumes that its containers mount, the pod's own among them.
	mounted      []*regexp.Regexp
	podResources bool
}

// Container reports whether the template renders a container with an image of that name.
// Such names are plain text: compiling a required template makes sure of it.
func (o Own) Container(name string) bool { return o.containers[name] }

// Volume reports whether the template may render a volume of that name. Any text may stand
// for an expression in the name.
func (o Own) Volume(name string) bool { return anyMatches(o.volumes, name) }

// Mounts reports whether one of the template's containers may mount a volume of that name.
func (o Own) Mounts(volume string) bool { return anyMatches(o.mounted, volume) }

// PodResources reports whether the template may render resources of the pod itself.
func (o Own) PodResources() bool { return o.podResources }

// With returns own with more containers: those that a pod got of a version that may be gone.
func (o Own) With(containers []string) Own {
	o.containers = maps.Clone(o.containers)
	for _, name := range containers {
		o.containers[name] = true
	}
	return o
}

// Own returns the names of a required entry, those of its canaries among them: a pod may have
// been made with a canary that is suspended now.
func (s *Set) Own(e Entry) Own {
	own := e.Own()
	for _, c := range s.byStable[e.Name] {
		if c.Version == nil {
			continue
		}
		of := Entry{Template: c.Version}.Own()
		maps.Copy(own.containers, of.containers)
		own.volumes = append(own.volumes, of.volumes...)
		own.mounted = append(own.mounted, of.mounted...)
		own.podResources = own.podResources || of.podResources
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
	own := Own{containers: map[string]bool{}, podResources: spec["resources"] != nil}
	for _, list := range containerLists {
		items, _ := spec[list].([]any)
		for _, item := range items {
			container, _ := item.(map[string]any)
			if name, ok := container["name"].(string); ok && container["image"] != nil {
				own.containers[name] = true
				own.mounted = append(own.mounted, renderedNames(container["volumeMounts"], "")...)
				own.mounted = append(own.mounted, renderedNames(container["volumeDevices"], "")...)
			}
		}
	}
	own.volumes = renderedNames(spec["volumes"], "")
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

// renderedNames compiles the names of a list in a manifest to expressions for what they may be
// rendered to. Items that are written out without the field with are left out, unless with is empty.
func renderedNames(list any, with string) []*regexp.Regexp {
	items, isList := list.([]any)
	if !isList && list != nil {
		items = []any{nil}
	}
	var names []*regexp.Regexp
	for _, item := range items {
		object, isObject := item.(map[string]any)
		if isObject && with != "" && object[with] == nil {
			continue
		}
		name, ok := object["name"].(string)
		if !ok {
			name = "${name}" // an expression gives the item
		}
		names = append(names, renderedName(name))
	}
	return names
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
