// Package param compiles the parameters that a template declares, and gives them their
// values for a pod.
//
// In: declarations and the installer's values for [Compile]; the annotations of a pod
// and its namespace for [Set.Resolve]. Out: an immutable [Set]; typed [Values], or an
// [Error] that a team can act on. Inputs are not modified.
//
// It may import templates/manifest, templates/rawjson, templates/show,
// templates/nearest and templates/v1alpha1, apimachinery's quantities and the grammar of image
// references; no other package of this module.
package param
