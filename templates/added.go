package templates

import (
	"encoding/json"
	"regexp"
)

// AddedContainers returns expressions for the names of the containers that the template may add
// to a pod: those with an image. There are none for a template that only changes a pod's own containers.
func (t *Template) AddedContainers() []*regexp.Regexp {
	var fragment map[string]any
	_ = json.Unmarshal(t.spec.Inject, &fragment) // it compiled
	spec, _ := fragment["spec"].(map[string]any)
	var names []*regexp.Regexp
	for _, list := range []string{"initContainers", "containers"} {
		items, isList := spec[list].([]any)
		if !isList && spec[list] != nil {
			items = []any{nil} // an expression gives the list
		}
		for _, item := range items {
			container, isObject := item.(map[string]any)
			if isObject && container["image"] == nil {
				continue
			}
			name, ok := container["name"].(string)
			if !ok {
				name = "${name}" // an expression gives the item
			}
			names = append(names, renderedName(name))
		}
	}
	return names
}
