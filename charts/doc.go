// Package charts has the parts of the Helm chart that commands bring: the templates of its library.
//
// In: nothing. Out: their names and manifests, as text for templates.Compile. The chart makes objects of the
// same files. Imports: nothing but the standard library.
package charts
