// Package record is what a pod says that Pillion did to it: the annotation
// pillion.dev/status, its format, the labels beside it, and the pods that follow from it.
//
// In: a pod as encoding/json decodes it with UseNumber. Out: a [Record], a tree
// of [Place]s that is addressed by keyed paths; the base pod ([Record.Base]),
// which is the pod as its author wrote it; and the pod without Pillion
// ([Record.Uninject]). A record can be forged. It only ever makes other pods to look at:
// nothing is removed from a pod because of it.
//
// May import: templates/podschema. No other package of this module, no net/http
// and no client.
package record
