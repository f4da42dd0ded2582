// Package usage tells which templates the namespaces and the workloads of a cluster use.
//
// In: a set of templates and the namespaces; for workloads, an API server that lists them.
// Out: in how many namespaces each template is in force, which templates namespaces name and
// there are not ([Rules.Count]), and the workloads and pods that name a template
// ([Workloads.Naming]). A [Counter] counts again after changes.
//
// Imports: injector/policy for the annotation, injector/entries and injector/owner for their tables, templates, and client-go's REST client. It knows
// nothing of reviews.
package usage
