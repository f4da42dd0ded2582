// Package apply brings a pod from what it is now to what the plan wants, in the
// way of kubectl apply: it compares the record (what Pillion wrote before), the
// plan (what the templates want) and the pod. It is the only place that knows
// the past.
//
//	the record says of a place    the pod has there            apply
//	nothing                       anything                     writes, notes the original
//	what the plan wants now       anything, or nothing in a    leaves it
//	                              place inside Pillion's own
//	what the plan wants now       not the item at all          adds it again
//	something else                what Pillion wrote           brings it up to date
//	something else                what somebody changed since  leaves it, with a warning
//	something, and the plan       anything                     leaves it
//	wants nothing there
//
// Where templates append to a variable, and another item of its name counts than before,
// what Pillion wrote is taken back, and the text is appended to the one that counts.
//
// In: a pod, its [record.Record] and the [merge.Plan] that was made of the base
// pod. Out: the pod as it shall be with its new record, and the operations that lead
// there; or a [TooLargeError]. Inputs are never modified.
//
// May import: record, merge, patch, templates/podschema. No net/http and no client.
package apply
