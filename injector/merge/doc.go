// Package merge merges one rendered template into a pod.
//
// In: a [State], which is the pod after the earlier templates with their writes, and a fragment
// (templates/fragment). Out: a [Result]: the merged pod, the template's writes, and the conflicts with the pod
// or with another template. The merge knows nothing of earlier calls: the caller passes the base pod. It does
// not modify its input. The same input gives the same bytes. Unknown fields stay as they are.
//
//	merge.go          Merge, its input and its result
//	object.go         objects, field by field
//	keyedlist.go      lists, item by item; fragment.Insert has the positions
//	containers.go     sidecars and extensions
//	settle.go         which value wins, the template's or the pod's: settle, policyFor, overrules
//	join.go           $append and $prepend
//	admission.go      values of the API server's own admission, which count as unset
//	derived.go        fields that the API server derives
//	resources.go      the pod's own spec.resources
//	writers.go        which template wrote which place
//	mergemessages.go  all sentences for people
//
// May import: templates/fragment, templates/directive, templates/podschema, apimachinery. No
// other package of this module, no net/http and no client.
package merge
