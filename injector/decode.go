package injector

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// DecodePod decodes one JSON object with its numbers kept exact.
func DecodePod(raw []byte) (map[string]any, error) { return podschema.DecodeObject(raw) }

// NamespaceOf returns the metadata of a Namespace object that the pipeline needs. The labels have the namespace's
// name, which the API server gives to every namespace.
func NamespaceOf(object map[string]any) templates.Namespace {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	labels := map[string]string{corev1.LabelMetadataName: name}
	for key, value := range stringMap(meta["labels"]) {
		if key != corev1.LabelMetadataName {
			labels[key] = value
		}
	}
	return templates.Namespace{Name: name, Labels: labels, Annotations: stringMap(meta["annotations"])}
}
