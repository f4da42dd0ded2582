package injector

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/pillion-dev/pillion/templates"
)

// DecodePod decodes one JSON object with its numbers kept exact.
func DecodePod(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var pod map[string]any
	if err := d.Decode(&pod); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the object")
	}
	if pod == nil {
		return nil, errors.New("it is null")
	}
	return pod, nil
}

// NamespaceOf returns the metadata of a Namespace object that the pipeline needs.
func NamespaceOf(object map[string]any) templates.Namespace {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return templates.Namespace{Name: name, Labels: stringMap(meta["labels"]), Annotations: stringMap(meta["annotations"])}
}
