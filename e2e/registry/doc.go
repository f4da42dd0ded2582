// Package registry is the image registry of a node that can reach no other.
//
// In: the path of the stand-in's binary (e2e/standin), and images that are pushed to it.
// Out: an http.Handler that speaks the registry's protocol (OCI Distribution
// Specification). To the node it is the mirror of all registries: a repository that is
// not its own is answered with the stand-in for its software, under any tag.
//
// It imports go-containerregistry and the standard library, nothing of this project.
package registry
