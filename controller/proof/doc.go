// Package proof tests at intervals whether API servers have pods injected by Pillion: end to end,
// by a pod that is never created.
//
// In: a function that creates a pod by server-side dry run in the proof namespace. Out:
// [Prover.Proven], which reports whether a failure of Pillion may refuse pods. A proof consists of
// [Pod] and [Validate], so that commands can make one with the rights of their user.
//
// The rules:
//
//   - A proof succeeds if the pod comes back with the record and the sidecar of [Template].
//     A successful request alone, or a ready replica, proves nothing.
//   - The first proof begins when the replica is ready. The next proof follows about thirty
//     seconds after a success, and one second after a failure, which grows to ten.
//   - A single failure after a success changes nothing: a replica may be stopping, or an API
//     server starting. Three failures in a row, at least two and a half seconds, end the
//     permission to enforce more namespaces.
//   - Enforced namespaces stay enforced: an attack on Pillion creates no pods without sidecars.
//
// Imports: the API's types. The caller supplies the request.
package proof
