// Package workload finds the pods in manifests: a pod itself, the pod template
// of anything that has one, and the items of lists.
//
// In: files of YAML or JSON with several documents. Out: the same documents, in
// which a function has changed every pod. What has no pod passes through as it
// was written. Imports: YAML; nothing of Pillion's.
package workload
