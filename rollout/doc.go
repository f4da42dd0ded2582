// Package rollout brings running pods to what they would get if they were created now.
//
// In: pods as the API server has them, and the templates in force. Out: workloads restarted, as
// kubectl rollout restart does, or images of native sidecars changed in place. Nothing is
// remembered between two runs: a run reads from the cluster which pods are behind.
//
// [Run] makes a plan, tries it by dry run, and carries it out one workload after the other.
// [InPlace] computes a patch and [RolledOut] reads a workload: both are pure. [Cluster] is the
// cluster's interface; [Connect] makes one with the rights of the person who runs the command.
//
// May import: injector with its record, patch and drift, templates, client-go's dynamic
// client. Nothing but cmd imports it.
package rollout
