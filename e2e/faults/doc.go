// Package faults does faults to Pillion and to its control plane while pods are created all the time,
// and judges each pod: in namespaces that never asked, that fail open, that fail closed, and that a
// required template selects.
//
// In: a Kubernetes with Pillion, and docs/concepts/faults.md, which states for each fault how long
// pods may be refused, or created without their sidecars. [Each] does one fault after another to a
// [ground.Node], [Soak] several at once at random to a [ground.ControlPlane], and [Rotate] replaces
// and damages certificates there. Out: counts of pods; the wrong ones are those that no fault explains.
package faults
