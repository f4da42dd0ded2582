package e2e

import _ "embed"

// sidecarSpec is a template with one native sidecar and two parameters.
//
//go:embed testdata/specs/sidecar.yaml
var sidecarSpec string

//go:embed testdata/specs/created-workloads.yaml
var createdWorkloads string

// plainSpec adds a sidecar and its volume, and nothing to anything of the author's.
//
//go:embed testdata/specs/plain.yaml
var plainSpec string

// greedySpec touches much of what the API server sets or computes by itself.
//
//go:embed testdata/specs/greedy.yaml
var greedySpec string

// meshSpec takes over the app's HTTP probes, and lists in its own sidecar whose they are.
//
//go:embed testdata/specs/mesh.yaml
var meshSpec string

// rolledSpec is a required template for the namespaces of a team, which has the template's
// name. IMAGE and USUAL differ from version to version.
//
//go:embed testdata/specs/rolled.yaml
var rolledSpec string

// strictSpec is a template that changes a pod everywhere that a tenant could change back.
//
//go:embed testdata/specs/strict.yaml
var strictSpec string

// filesSpec is a template whose sidecar reads a file that is rendered for its pod.
//
//go:embed testdata/specs/files.yaml
var filesSpec string

// causesTemplates are those of testdata/causes.yaml: one that keeps off the host's network, one that is suspended, and
// one that does without itself where its parameters are wrong.
//
//go:embed testdata/specs/causes.yaml
var causesTemplates string
