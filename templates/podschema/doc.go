// Package podschema has the schema of a pod as the Kubernetes API declares it: its fields, their types, and the
// keys of its lists.
//
// The schema is the structured-merge schema of client-go's apply configurations, which server-side apply uses.
// So there is no hand-written table of fields or merge keys: a test writes the pod's part of the schema to
// pod.json and compares it. Unlike the older patchMergeKey tags, the schema knows that a port's key is its
// number and its protocol.
//
// In: nothing. Out: [Pod], a tree of [Type]. It imports no client. Its tests import
// client-go's apply configurations and the structured-merge schema.
package podschema

//go:generate go test . -run TestTheEmbeddedSchemaIsThatOfClientGo -update
