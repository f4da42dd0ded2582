// Package templates compiles SidecarTemplates and renders them for pods.
//
// In: a manifest (YAML or JSON) and the installer's values for [Compile]; the
// base pod and its namespace for [Template.Render]. Out: an immutable
// [Template], or a [CompileError] with every problem of the manifest and its
// line; and a [Rendered] fragment of a pod, which still has the directives for
// the merge ($position, $patch, $unset, $append, $prepend, $onConflict).
//
// A pod is map[string]any as encoding/json decodes it with UseNumber, and so is
// a fragment. The package does not modify its input, and a fragment shares no
// memory with the template or the pod. The same input gives the same fragment.
// Templates may be used by any number of goroutines.
//
// Compile does all work that does not depend on the pod: it makes the fragment a
// tree whose expressions are CEL programs, typed against the pod's schema. It
// finds an author's mistakes by type checks and by rendering for two sample
// pods. Constants of templates/expression bound the cost that a tenant can cause.
//
// Imports: the packages below this one for manifests, parameters, expressions,
// directives, image references and the pod's schema; apimachinery. Only
// templates/expression imports CEL. No package of injector, no client, no clock.
package templates
