// Package workload finds the pods in manifests: a pod itself, the pod template
// of anything that has one, and the items of lists.
//
// In: files of YAML or JSON with several documents. Out: the same documents, in
// which a function has changed every pod, and for each pod template the pod that the
// workload's controller creates of it. Objects without a pod pass through as they
// were written. A pod that API servers cannot decode is an error, which names the object,
// the field and the value.
//
// May import: YAML, copies and encodings of k8s.io/apimachinery, the API's types,
// injector/owner, templates/manifest.
package workload
