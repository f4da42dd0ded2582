// Package templates compiles SidecarTemplates and renders them for pods.
//
// In: a manifest (YAML or JSON) and the installer's values for [Compile]; the
// base pod and its namespace for [Template.Render]. Out: an immutable
// [Template], or a [CompileError] with every problem of the manifest and its
// line; and a [Rendered] fragment of a pod, which still has the directives that say
// how to merge it ($position, $patch, $unset, $append, $prepend, $onConflict).
//
// A pod is map[string]any as encoding/json decodes it with UseNumber, and so is
// a fragment. Nothing here modifies what it is given, and a fragment shares no
// memory with the template or the pod. The same input gives the same fragment.
// Templates may be used by any number of goroutines.
//
// Everything is compiled once: the fragment becomes a tree in which expressions
// are CEL programs, typed against the pod's schema. The compilation finds an author's
// mistakes, by type checks and by rendering for two made-up pods. Constants of
// templates/expression bound the cost that a tenant can cause.
//
// Imports: the packages below this one for manifests, parameters, expressions,
// directives, image references and the pod's schema; apimachinery. Of CEL only
// templates/expression knows. No package of injector, no client, no clock.
package templates

//go:generate go test . ./expression -run TestTheReference -update
