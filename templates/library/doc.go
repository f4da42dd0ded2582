// Package library holds the templates that ship with Pillion, ready to be named
// in the chart's values.
//
// In: nothing. Out: their names and manifests, as text for templates.Compile;
// they are ordinary templates and get no other treatment. Imports: nothing but
// the standard library.
package library
