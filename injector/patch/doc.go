// Package patch has the operations of an RFC 6902 JSON patch and proves, before the
// patch leaves the process, that it gives exactly the intended pod.
//
// In: operations as (op, path segments, value), in the order in which they
// apply, and pods as encoding/json decodes them with UseNumber. Out:
// [Operation], its JSON, and an error from [Check] if the patch does not give
// the intended pod. The API server refuses a pod whose patch it cannot apply,
// whatever the failurePolicy, so such a patch must never be sent.
//
// May import: mattbaird/jsonpatch. No other package of this module imports that
// library. Only its operation type is used: CreatePatch loses reorderings and
// rounds numbers, and MarshalJSON does not escape paths. templates/rawjson. No net/http and no client.
package patch
