// Package measure has what the commands that measure Pillion share: a control plane with
// Pillion on it, a pod as a ReplicaSet makes it, and what a set of durations says.
//
// In: a checkout with bin/pillion. Out: values; it prints nothing but the ground's progress.
// It may import e2e/ground, client-go and the Kubernetes API types.
package measure
