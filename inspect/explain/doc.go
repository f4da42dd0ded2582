// Package explain says why a pod gets its sidecars, or does not: for people within the width
// of a terminal, and for machines as JSON, both from one structure.
//
// In: the outcome of [injector.Pipeline.Inject] for a request that says Explain, and how a pod
// that exists compares with a new one ([drift.Comparison]). Out: a [Report] and its text. What
// does not fit a line goes on in the next; commands have lines of their own and are whole. A text
// of more than 2000 characters is cut, and the JSON has it.
//
// May import: injector and what it imports, injector/drift, templates. No
// net/http and no client.
package explain
