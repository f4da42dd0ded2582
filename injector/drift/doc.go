// Package drift says how a pod that exists compares with the pod that would be created in
// its place now: which templates it has as they are in force, which it has in another version
// or with other parameters, and which it lacks.
//
// In: a pod as the API server stores it, its namespace, the templates in force. Out: a
// [Comparison], which has a [State] for each template. The comparison takes the same steps as
// the webhook, by [injector.Pipeline]: the pod as it was created goes through them once more,
// and its record is compared with the new one, place by place. So a pod that the webhook injected, and for
// which nothing has changed since, is never missing or outdated.
//
// May import: injector, its record and reason, templates. No net/http and no client.
package drift
