// Package explain formats why a pod gets its sidecars, or does not: as text for a terminal, and as
// JSON, both from one structure.
//
// In: the outcome of [injector.Pipeline.Inject] for a request with Explain, and the comparison of
// an existing pod with a new one ([drift.Comparison]). Out: a [Report] and its text. Long lines are
// wrapped, but each command stays on one line. A text of more than 2000 characters is cut, and the
// JSON has all of it.
//
// May import: injector and what it imports, injector/drift, templates. No
// net/http and no client.
package explain
