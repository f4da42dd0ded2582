// Package state is the report of a replica about itself, as JSON at [Path] of its admin port: its
// settings, the templates that it applies with their hashes, its caches, proof and certificates,
// and its present failures.
//
// In, at the server: the replica's own metrics. Out: a [State]. In, at a command: the JSON. Out: the
// same [State], without characters that control a terminal.
//
// May import: templates/show and the model of metrics. No net/http and no client.
package state
