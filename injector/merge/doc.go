// Package merge puts one rendered template into a pod.
//
// In: the pod as the templates before left it, the fragment (templates/fragment), and [Writers], which
// say which template wrote which place. Out: a [Result]: the merged pod, what was written, and the
// places where the pod or another template disagrees. The merge knows nothing of earlier calls: the
// caller gives it the base pod. It never changes what it is given. The same input gives the same
// bytes. Unknown fields are never touched.
//
//	merge.go      the walk's beginning and what it gathers
//	object.go     an object, field by field
//	list.go       a list, item by item; position is fragment.Insert
//	container.go  sidecars and extensions
//	settle.go     a value meets another one: the table of conflicts
//	join.go       $append and $prepend
//	admission.go  what the API server's own admission sets counts as unset
//	derived.go    what the API server derives from what was written
//	resources.go  the pod's own spec.resources
//	writers.go    who wrote which place
//
// May import: templates/fragment, templates/directive, templates/podschema, apimachinery. No
// other package of this module, no net/http and no client.
package merge
