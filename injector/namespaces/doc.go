// Package namespaces supplies the labels and annotations of namespaces.
//
// In: a metadata client. Out: [Informer.Get] and [Informer.All], answered from a cache of
// metadata. Get reads a namespace live if the cache does not hold it, so the first pod of a
// new namespace is treated like the second pod, and if the cache contradicts what the caller
// knows of the namespace, or is wrong.
//
// Imports: client-go's metadata client, clientset/follow for the cache, templates and injector/kept for the
// types of a namespace.
package namespaces
