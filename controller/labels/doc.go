// Package labels manages Pillion's labels on namespaces.
//
// In: the templates in force, and namespaces with their labels, annotations and managed fields.
// Out: the labels that have to change. [Rules] decide, without a clock or a client. The webhook
// for namespaces makes the changes in somebody else's write ([Rules.InWrite]). The [Controller]
// writes what that webhook missed, because a template came or went, or Pillion was away.
// A [Remover] takes the labels off when Pillion goes.
//
// The rules of the controller:
//
//   - Only a namespace whose labels differ in the cache is written. All replicas write, without a
//     leader: an apply that another replica was faster with changes nothing.
//   - Nothing is written before templates and namespaces have been read completely.
//   - A label is put on at once. It is taken off when it has not been wanted for a while: too
//     late costs calls, too early leaves pods unverified.
//   - Namespaces that changed just now come first, then labels to put on, then others.
//   - A write that fails is tried again, later each time. A missing right stops all but one try.
//   - A value that somebody set by hand stays, where the label's rule says so. The API server
//     refuses the write, as a conflict, if the cache does not have the hand's value yet.
//   - Where somebody undoes a write, the next write waits, and longer where the label is taken
//     off: replicas of two versions disagree while one replaces the other.
//
// Imports: controller/reconcile, controller/rights, injector/policy, templates, and the metadata client of client-go.
package labels
