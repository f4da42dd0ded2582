// Package namespaces knows the labels and annotations of namespaces.
//
// In: a metadata client. Out: [Informer.Get], answered from a metadata-only
// informer, and read live for a namespace that the informer has not seen yet, so
// that the first pod of a new namespace is treated like the second.
//
// Imports: client-go's metadata client and informer.
package namespaces
