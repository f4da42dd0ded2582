// Package labels manages Pillion's labels on namespaces.
//
// In: the templates in force, and namespaces with their labels, annotations and managed fields.
// Out: the labels that have to change. [Rules] decide, without a clock or a client. The webhook
// for namespaces makes the changes in a client's write ([Rules.ChangesInWrite]). The [Controller]
// makes the changes that the webhook missed, because a template was created or deleted, or Pillion
// was away. A [Remover] removes the labels when Pillion is uninstalled.
//
// The rules of the controller:
//
//   - It writes only namespaces whose cached labels differ. All replicas write, without a leader:
//     an apply that another replica has made before changes nothing.
//   - It writes nothing before templates and namespaces have been read completely.
//   - It sets a label at once, by server-side apply without force: a conflict shows another owner.
//     It removes a label later: a late removal costs calls, an early one leaves pods unverified.
//   - When templates change, it writes one namespace after the other. A namespace that changes
//     meanwhile is written at once.
//   - It retries a failed write by the queue's back-off.
//   - If another client undoes its writes, the next ones wait, and removals wait longer.
//
// Imports: controller/reconcile, controller/rights, injector/policy, templates, and the metadata client of client-go.
package labels
