// Package lint finds what is wrong, or probably not meant, with SidecarTemplates
// before a cluster meets them.
//
// In: the documents of files, and sample pods. Out: findings, each with a rule, a
// severity, a place in the file and a sentence. What the compiler refuses is an
// error; what it admits is injected into every sample pod, and the result is looked
// at: whether the API takes it, what it means for the Pod Security Standard, for
// Jobs, for the order of containers, for the scheduler.
//
// [Rules] names every rule. Imports: templates, injector/merge, the API's types and
// validation as far as libraries offer them, and Kubernetes' Pod Security checks. No
// client.
package lint
