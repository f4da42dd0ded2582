// Package expression compiles and evaluates the expressions of templates, which are
// written in CEL.
//
// In: a template's parameters and the installer's values for [NewEnvironment]; the source
// of one expression and its place in the manifest; a pod, its namespace and the values of
// its parameters for [Names.Run]. Out: an immutable [Expression], and each mistake in its
// source with its place; the expression's value for a pod as JSON, as encoding/json
// decodes it with UseNumber, or an [Error]. No value of CEL leaves this package.
//
// A [Run] is one render of a template for one pod. Its expressions share one bound on
// their cost and one on the bytes that they give. Inputs are not modified, and results
// share nothing with them. The same run gives the same bytes.
//
// It may import templates/manifest, templates/nearest, templates/param,
// templates/podschema, templates/show and templates/v1alpha1, cel-go and the CEL
// libraries of Kubernetes' admission policies; no other package of this module.
package expression
