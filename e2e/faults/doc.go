// Package faults shows what faults of Pillion, of its configuration and of the control plane
// cost. Pods are created all the time, thirty a second, in a namespace that fails closed, in
// one that fails open and in one that never asked, while one fault after the other is done to
// a node with the chart's default number of replicas.
//
// In: a [ground.Node], and docs/concepts/faults.md, which states for each fault in which time pods may
// be refused, or created without their sidecars. Out: a [Result] for each fault, which counts
// pods, and says what is not as stated. `make faults` runs it.
package faults
