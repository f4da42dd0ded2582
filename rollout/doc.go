// Package rollout brings running pods to what they would get if they were created now.
//
// In: pods as the API server has them, and a [Judge] that says how a pod stands. Out: pods
// evicted, workloads restarted, or images of native sidecars changed in place, in waves.
// Nothing is remembered between two runs: what is left to do is read from the cluster.
//
// [Next] chooses a wave, [InPlace] computes a patch, [Size] and [RolledOut] read workloads: all
// of them are pure. [Run] is the loop around them, and [Cluster] all that it asks of a cluster;
// [Connect] makes one with the rights of the person who runs the command.
//
// May import: injector with its record, patch and drift, templates, client-go's dynamic
// client. Nothing but cmd imports it.
package rollout
