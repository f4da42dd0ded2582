// Package rollout brings running pods up to date with the templates in force.
//
// In: the cluster's pods, and the templates in force. Out: workloads restarted, as by kubectl
// rollout restart, or images of native sidecars changed in place. A run stores nothing: the next
// run reads from the cluster which pods are outdated.
//
// [Run] makes a plan, tests it by dry run, and executes it one workload after the other. [InPlace]
// computes a patch and [RolledOut] reads a workload: both are pure. [Cluster] is the interface to
// the cluster; [Connect] returns one with the rights of the person who runs the command.
//
// [Promote] gives a stable template the spec of its canary, which a rollout then brings to running pods.
//
// May import: controller/store, injector with its record, patch and drift, templates, client-go's dynamic
// client. Nothing but cmd imports it.
package rollout
