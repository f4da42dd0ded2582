// Package apirules says what the API server refuses of a pod, as far as that can be known
// without one.
//
// In: a pod, and the pod that it was made of. Out: problems, each with its place. A problem
// is one that every supported API server has with the pod: a test sends broken pods to a
// real one and compares (e2e/apirules_test.go). The API server refuses more than this
// package knows: its own rules are in k8s.io/kubernetes, which is no library. What the API
// server accepts is never a problem here.
//
// May import: the API's types and validation, Kubernetes' Pod Security checks. No package
// of this module.
package apirules
