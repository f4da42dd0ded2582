package templates

import "regexp"

// AddedContainers returns expressions for the names of the containers that the template may add
// to a pod: those with an image. There are none for a template that only changes a pod's own containers.
func (t *Template) AddedContainers() []*regexp.Regexp {
	spec := injectedSpec(t.spec.Inject)
	return append(renderedNames(spec["initContainers"], "image"), renderedNames(spec["containers"], "image")...)
}
