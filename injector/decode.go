package injector

import (
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// DecodePod decodes one JSON object with its numbers kept exact.
func DecodePod(raw []byte) (map[string]any, error) { return podschema.DecodeObject(raw) }

// NamespaceOf returns the metadata of a Namespace object that the pipeline needs.
func NamespaceOf(object map[string]any) templates.Namespace {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return templates.Namespace{Name: name, Labels: stringMap(meta["labels"]), Annotations: stringMap(meta["annotations"])}
}
