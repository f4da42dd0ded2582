// Package schema has the JSON Schema of SidecarTemplates, for editors: draft-07, which they all
// read. It follows the Go types of templates/v1alpha1, the pod's schema and the directives; the
// test of this package generates it and compares.
//
// A manifest that compiles is valid. The reverse does not hold: only the compiler checks expressions, and rules that
// depend on the place of an object in the pod.
//
// May import: nothing of this module.
package schema

//go:generate go test . -run TestTheSchemaFollowsTheTypes -update
