// Package canary stops canaries of templates that fail.
//
// In: lists of the pods that carry a template with a canary, refusals of new pods, and the set in
// force. Out: how many workloads of each version fail ([Health], [Watcher] as metrics), the decision
// to stop ([Judge], pure), and the condition Stopped in the status of the canary's object.
//
// Every replica decides for itself. They see the same pods, so they decide the same, and the first
// one writes the condition: the others find it there.
//
// May import: controller/coverage, controller/store, injector/owner, injector/record, templates. No
// client: the caller hands in how to list and how to write.
package canary
