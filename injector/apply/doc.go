// Package apply changes a pod to the target that the templates make.
//
// In: the pod as it is, its record, and a [Target]: the base pod with the templates merged into it, and the
// writes of each. Out: a [Result]: the changed pod, its JSON patch, and the new record. [Apply] has the table.
//
// May import: merge, record, patch, templates/podschema. No other package of this module, no
// net/http and no client.
package apply
