// Package migrate makes SidecarTemplates of the configuration of other injectors: tumblr's
// k8s-sidecar-injector, OpenKruise's SidecarSet, Istio's custom templates, Kyverno's policies and
// Kubernetes' MutatingAdmissionPolicies. docs/how-to/migrate.md has a table for each.
//
// In: the documents of a file. Out: templates as JSON objects, and a note for everything that is
// not carried over, with what to do. Fields go by the names in those projects' published Go types.
// Where it cannot be said who gets a template, the template is suspended: nobody gets a sidecar who
// had none.
//
// May import: injector/workload, templates.
package migrate
