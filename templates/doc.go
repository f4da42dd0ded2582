// Package templates compiles SidecarTemplates and renders them for pods.
//
// In: a manifest (YAML or JSON) and the installer's values for [Compile]; the
// base pod and its namespace for [Template.Render]. Out: an immutable
// [Template], or a [CompileError] with every problem of the manifest and its
// line; and a [Rendered] fragment of a pod, in which of all directives only
// those are left that say how to merge it ($position, $patch, $unset, $onConflict).
//
// A pod is map[string]any as encoding/json decodes it with UseNumber, and so is
// a fragment. Nothing here modifies what it is given, and a fragment shares no
// memory with the template or the pod. The same input gives the same fragment.
// Templates may be used by any number of goroutines.
//
// Everything is compiled once: the fragment becomes a tree in which expressions
// are CEL programs, typed against the pod's schema. What an author can get
// wrong is found then, by type checks and by rendering for two made-up pods.
// What a tenant can make a template cost is bounded by constants of this package.
//
// Imports: its API types and the pod's schema, apimachinery, cel-go and the CEL
// libraries that Kubernetes gives its admission policies. No client, no clock.
package templates

//go:generate go test . -run TestTheReferenceForAuthorsIsUpToDate -update
