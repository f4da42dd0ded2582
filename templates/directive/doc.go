// Package directive is the grammar of the directives: the keys of a template's fragment that begin with $.
//
// The compiler of templates and the merge both use it, so that a mistake gives the same sentence when the
// template is compiled and when it is merged.
//
// In: the objects of a fragment, as encoding/json decodes them, and the place of each in the pod. Out: the
// parsed directives, and the mistakes in them.
//
// It may import templates/podschema and templates/nearest; no other package of this module.
package directive
