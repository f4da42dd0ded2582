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

// completedSpec has much that API servers complete, and nothing that they could not be told at once.
//
//go:embed testdata/specs/completed.yaml
var completedSpec string

// policySpec is a required template of which a policy has an expression of each kind.
//
//go:embed testdata/specs/policy.yaml
var policySpec string

// slowTemplate costs a pod of many containers about a quarter of what all templates may together. TEN is a list.
//
//go:embed testdata/specs/slow.yaml
var slowTemplate string

// changingTemplate is a required template all parts of which say NUMBER, its version.
//
//go:embed testdata/specs/changing.yaml
var changingTemplate string

// lintValues are values of the chart that templates read, for the templates LIBRARY.
//
//go:embed testdata/specs/lint-values.yaml
var lintValues string

// untouchedWorkloads are those whose pods no rollout replaces.
//
//go:embed testdata/specs/untouched.yaml
var untouchedWorkloads string

// worstSpecs are the specs of templates that cost as much as one may, and of one that is far too large.
//
//go:embed testdata/specs/worst.yaml
var worstSpecs string

// goodReview is the review of a pod that nothing asks about.
//
//go:embed testdata/specs/review.json
var goodReview string

// causesTemplates are those of testdata/causes.yaml: one that keeps off the host's network, one that is suspended, and
// one that does without itself where its parameters are wrong.
//
//go:embed testdata/specs/causes.yaml
var causesTemplates string
