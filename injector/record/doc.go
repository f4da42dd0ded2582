// Package record has the record of what Pillion did to a pod: the annotation pillion.dev/status, one
// flat map by keyed paths. It gives the pod as its author wrote it ([Record.Base]) and takes Pillion's
// work out of a pod ([Record.Uninject]).
//
// In: a pod, and its annotation. Out: a [Record], and pods. A record can be forged. It has no meaning
// for security, and a malformed one counts as none.
//
// May import: templates/podschema. No other package of this module, no net/http and no client.
package record
