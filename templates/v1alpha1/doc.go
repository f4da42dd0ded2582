// Package v1alpha1 is the SidecarTemplate as it is written: the Go form of the
// manifest that files and the cluster share.
//
// In and out: values only; reading, checking and rendering them is package
// templates. Defaults are told here and filled in there. Imports: apimachinery's
// types of metadata and schemas, and encoding/json.
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// Group is the API group of SidecarTemplates, and Version this package's version of it.
const (
	Group   = "pillion.dev"
	Version = "v1alpha1"
	// APIVersion is the value of apiVersion in a manifest.
	APIVersion = Group + "/" + Version
	// Kind is the value of kind in a manifest.
	Kind = "SidecarTemplate"
	// NamespacedKind is the kind of templates for the pods of their own namespace. Their spec is
	// that of a SidecarTemplate, without the fields that reach beyond the namespace.
	NamespacedKind = "NamespacedSidecarTemplate"
)

// Resource returns a resource of the group by its plural name.
func Resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: plural}
}
