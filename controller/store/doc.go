// Package store keeps the set of templates in force up to date, and writes their statuses.
//
// In: the cluster's SidecarTemplates and NamespacedSidecarTemplates. Out: snapshots (*templates.Set) that any
// goroutine reads without waiting, calls after each change, and what is missing before the first complete one, in
// words. [Compile] and [CompileNamespace] give the same for objects that were read once.
//
// The rules:
//
//   - A bad spec never replaces a good one. The last good version stays in force, and its entry carries the error
//     until a good spec comes.
//   - An object that is gone is out of force, unless it went with its CRD: then it stays in force, with an error,
//     until it is back.
//   - While the API server cannot be read, what was last read stays in force.
//   - Only objects that changed are compiled.
//
// Imports: templates, client-go's dynamic client, controller/follow for the caches, and controller/reconcile for the
// queues. It knows nothing of requests, pods or settings.
package store
