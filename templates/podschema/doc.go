// Package podschema is the shape of a pod as the Kubernetes API itself declares
// it: which fields there are, what type each has, and which lists are keyed by
// what.
//
// It comes from the structured-merge schema that client-go's apply
// configurations carry, the one that server-side apply uses, so that no table
// of fields or merge keys is written by hand here: pod.json is the pod's part of
// it, written by a test and held to it. Unlike the older
// patchMergeKey tags it knows that a port's key is its number and its protocol.
//
// In: nothing. Out: [Pod], a tree of [Type]. It imports no client. Its tests import
// client-go's apply configurations and the structured-merge schema.
package podschema

//go:generate go test . -run TestTheEmbeddedSchemaIsThatOfClientGo -update
