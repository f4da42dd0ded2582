// Package lint finds what is wrong, or probably not meant, with SidecarTemplates
// before a cluster meets them.
//
// In: the documents of files, and sample pods. Out: findings, each with a rule, a
// severity, a place in the file and a sentence. What the compiler refuses is an
// error. What it admits is injected into every sample pod, and the resulting pod is
// checked: against the API, the Pod Security Standards, for Jobs that never finish,
// for the order of containers, for missing resources.
//
// [Rules] names every rule. Imports: templates, injector/merge, offline/samples, the
// API's types and validation as far as libraries offer them, and Kubernetes' Pod
// Security checks. No client.
package lint
