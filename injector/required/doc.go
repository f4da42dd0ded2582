// Package required compares a final pod with what the required templates want
// in it.
//
// In: the plan, the final pod, the record that the pod came with, and what each
// template's spec.verify allows. Out: a [Difference] for each place that is not
// as it has to be. The comparison is strict: a sidecar of a required template
// has every field as rendered and no other field, but for the API's defaults,
// what the API server's own admission adds, and what spec.verify allows. In other
// containers nothing hides what it mounts, and nothing else mounts its volumes.
//
// May import: merge, record, templates/podschema. No net/http and no client.
package required
