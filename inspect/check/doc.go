// Package check reports whether an installation of Pillion is sound, with the command that repairs each fault.
//
// In: a cluster, read with the user's own rights. Out: a [Report], in which each [Check] has a result
// and its findings. A check is a value: a name, a description, a hint, and a function that reads a part
// of the cluster and returns findings. Reads that several checks need are shared.
//
// A new check is one more value in [All], and a row in the table of its test.
//
// May import: inspect and its imports. No net/http, and nothing of certs, webhook and rollout.
package check
