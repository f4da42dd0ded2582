// Package namespaces supplies the labels and annotations of namespaces.
//
// In: a metadata client. Out: [Informer.Get] and [Informer.All], from a cache of metadata without managed
// fields. For a namespace with more than 16 KiB of labels and annotations, the cache has a stub.
//
// Get reads a namespace live if the cache has only a stub of it, does not have it, or contradicts the caller:
// the first pod of a new namespace is treated like the second one.
//
// Imports: client-go's metadata client, controller/follow for the cache, templates and controller/labels for
// the types of a namespace.
package namespaces
