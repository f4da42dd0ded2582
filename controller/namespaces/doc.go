// Package namespaces supplies the labels and annotations of namespaces.
//
// In: a metadata client, and what the templates in force read of namespaces. Out: [Informer.Get]
// and [Informer.All], answered from a cache of metadata. The cache keeps a part of large
// namespaces: all that templates name. When they name more, it reads these namespaces anew.
//
// Get reads a namespace live if the cache does not hold it: the first pod of a new namespace is
// treated like the second one. It also does if the cache contradicts what the caller knows, lacks
// what templates read of the namespace, or is wrong.
//
// Imports: client-go's metadata client, controller/follow for the cache, templates/rawjson for
// lists, templates and controller/labels for the types of a namespace.
package namespaces
