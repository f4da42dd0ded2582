// Package state is what a replica says of itself, as JSON at [Path] of its admin port: its
// settings, the templates that it applies with their hashes, its caches, proof and certificates,
// and what fails at present.
//
// In, at the server: the replica's own metrics and settings. Out: a [State]. In, at a command: the
// JSON. Out: the same [State], as text that commands no terminal.
//
// May import: templates/show and the model of metrics. No net/http and no client.
package state
