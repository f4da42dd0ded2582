// Package lint finds mistakes in SidecarTemplates, and texts that their authors
// probably did not mean, before a cluster has the templates.
//
// In: the documents of files, and sample pods. Out: findings, each with a rule, a
// severity, a place in the file and a sentence. A template that the compiler
// refuses gives errors. Any other template is injected into every sample pod, and
// each resulting pod is checked: against a table of frequent typing mistakes, for Jobs
// that never finish, for the order of containers, for missing resources. [Validate] adds
// the findings of an API server.
//
// [Rules] has every rule.
//
// May import: templates, injector/merge, lint/oracle, templates/samples, injector/workload,
// the API's types and validation. No client.
package lint
