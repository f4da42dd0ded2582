// Package hazard finds the places of a template where a tenant's value stands inside the
// text of a shell script or of a configuration, and can mean more than a value there.
//
// In: a template's parameters, the names that its expressions see, and the texts of its
// fragment. Out: a [Hazard] for each expression that lets such a value in. It renders
// nothing.
//
// It may import templates/expression and templates/v1alpha1; no other package of this
// module.
package hazard
