// Package clash finds ports that two containers of a pod open, one of them because a template
// says so.
//
// In: the author's pod, the pod that a template was merged into, and the template's fragment.
// Out: an [Error] for the first such port. Two ports of the author's are between the author and
// the API server. The cost is linear in the ports of the pod, and nothing where the fragment has
// none.
//
// Pure. May import: injector/merge, templates/podschema, templates/directive.
package clash
