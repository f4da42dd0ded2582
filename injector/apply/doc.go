// Package apply brings a pod up to date.
//
// In: the pod as it is, its record, and what the templates want ([Wanted]): the base pod with the
// templates merged into it, and what each wrote. Out: a [Result]: the pod as it shall be, the operations
// that lead there, and the new record. [Apply] has the table.
//
// May import: merge, record, patch, templates/podschema. No other package of this module, no
// net/http and no client.
package apply
