// Package soak does faults to Pillion and to its control plane at random, up to three at once.
// Meanwhile clients create thirty pods a second, and try again as controllers do. Pods go to
// namespaces that never asked, that are enabled, that are enforced, and that a required template
// selects.
//
// In: a [ground.ControlPlane], a seed, and docs/concepts/faults.md, which states for
// each fault in which time pods may be refused, or created without their sidecars. Out: a
// [Result], which counts pods that no fault explains. The same seed does the same faults in the
// same order. `make soak` runs it.
package soak
