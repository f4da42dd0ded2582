// Package store keeps the set of templates in force up to date, and writes their statuses.
//
// In: the cluster's SidecarTemplates and NamespacedSidecarTemplates. Out: snapshots (*templates.Set) that any
// goroutine reads without waiting, calls after each change, and the reason why the first snapshot is not complete
// yet. [Compile] and [CompileNamespace] return the same for lists of objects.
//
// The rules:
//
//   - A bad spec never replaces a good one. The last good version stays in force, and its entry has the error until
//     the spec is corrected.
//   - A deleted object is not in force any more, unless it was deleted with its CRD: then it stays in force, with an
//     error, until it exists again.
//   - While the API server cannot be read, the last set stays in force.
//   - Only changed objects are compiled.
//
// Imports: templates, client-go's dynamic client, controller/follow for the caches, and controller/reconcile for the
// queues. The package reads no requests, pods or settings.
package store
