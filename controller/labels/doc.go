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
//   - A label is put on at once, by server-side apply without force: a conflict shows that somebody
//     holds it. It is taken off when it is not wanted after a while: too late costs calls, too early
//     leaves pods unverified.
//   - When templates change, the namespaces come one after the other. One that changes meanwhile comes
//     at once.
//   - A write that fails is tried again by the queue's back-off.
//   - Where somebody undoes writes, the next ones wait, and longer where labels are taken off.
//
// Imports: controller/reconcile, controller/rights, injector/policy, templates, and the metadata client of client-go.
package labels
