// Package injector is the way of one pod, from the pod that came to the patch:
//
//	base ─► decide ─► render ─► plan ─► apply ─► patch
//
//	base    the pod as its author wrote it      record.Record.Base
//	decide  which templates?                    policy.Decide
//	render  what does each say for this pod?    templates.Template.Render
//	plan    what do all want, place by place?   merge.Merge
//	apply   what has to change now?             apply.Apply
//	patch   which JSON patch is that?           patch.Check
//
// In: a [Request]: a pod, its namespace and the templates in force. Out: an
// [Outcome]. All steps are pure: the same request gives the same bytes, and the
// command line runs the very same [Pipeline] offline. Each takes as much time as the
// pod is large, shares with the pod what it does not change, and stops with its
// context: deadline.go says what becomes of the request then.
//
// May import: policy, record, merge, apply, required, patch, reason, templates.
// No net/http, no client, nothing of webhook or effects.
package injector
