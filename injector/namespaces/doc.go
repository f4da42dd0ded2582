// Package namespaces supplies the labels and annotations of namespaces.
//
// In: a metadata client. Out: [Informer.Get] and [Informer.List], answered from the cache
// of a metadata-only informer. Get reads a namespace live if the cache does not hold it:
// so the first pod of a new namespace is treated like the second pod.
//
// Imports: client-go's metadata client and informer, templates and injector/kept for the
// types of a namespace.
package namespaces
