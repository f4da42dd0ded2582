// Package injector injects one pod: from the pod of the admission review to its JSON patch.
//
//	base ─► decide ─► for each template: render ─► merge ─► apply ─► required ─► patch
//
//	base      the pod as its author wrote it             record.Record.Base
//	decide    the templates to inject, in order          policy.Decide
//	render    a template's fragment for the pod          templates.Template.Render
//	merge     the fragment merged into the pod           merge.Merge
//	apply     the changes that the pod still needs       apply.Apply
//	required  the additions of the required templates    required.Required
//	patch     proof that the patch gives the pod         patch.Check
//
// In: a [Request]: a pod, its namespace and the templates in force. Out: an [Outcome]. All steps are pure: the
// same request gives the same bytes, and the command line runs the same [Pipeline]. Each step takes time linear
// in the pod's size, shares unchanged parts with the pod, and stops when its context ends (deadline.go).
//
// May import: policy, record, merge, apply, required, patch, reason, templates.
// No net/http, no client, nothing of webhook.
package injector
