// Package charts embeds the library of templates of the Helm chart.
//
// In: nothing. Out: names and manifests, as text for templates.Compile, and the schema of the values. The chart renders SidecarTemplates from
// the same files. Imports: the standard library.
package charts
