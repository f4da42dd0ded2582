// Package proof finds out, again and again, whether API servers have pods injected by Pillion:
// end to end, by a pod that is never created.
//
// In: a function that creates a pod by server-side dry run in the proof namespace. Out:
// [Prover.Proven], which says whether a failure of Pillion may refuse pods. [Pod] and [Validate] are
// all that a proof is: commands make one with the rights of their user.
//
// The rules:
//
//   - A proof is a pod that comes back with the record and the sidecar of the template
//     [Template]. Nothing else is one: not an answer, not a ready replica.
//   - The first proof begins when the replica is ready. Proofs that fail follow each other
//     after one second, later after ten, and those that succeed after about thirty.
//   - One proof that fails after others succeeded is no news: it may have met a replica that
//     ends, or an API server that starts. Three in a row take at least two and a half seconds
//     and mean that nothing new may be enforced.
//   - What is enforced already stays enforced: whoever breaks Pillion gets no bare pods.
//
// Imports: the API's types. The request is a function, which cmd makes.
package proof
