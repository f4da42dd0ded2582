package templates

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// canonical copies the installer's values as raw JSON.
func canonical(values map[string]any) (map[string]any, error) {
	if len(values) == 0 {
		return map[string]any{}, nil
	}
	data, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	v, err := manifest.DecodeJSON(data)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// hashOf hashes the spec and the values. The raw parts of the spec are written
// anew, so that neither white space nor the order of keys counts. Nor do the operating
// systems: they change nothing of a pod that has the template.
func hashOf(spec v1alpha1.SidecarTemplateSpec, values map[string]any, foreign []string) string {
	spec.OS = nil
	data, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("templates: encoding a spec that was decoded: %v", err))
	}
	object, err := manifest.DecodeJSON(data)
	if err != nil {
		panic(fmt.Sprintf("templates: decoding a spec that was encoded: %v", err))
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	parts := []any{object, values}
	if foreign != nil {
		parts = append(parts, foreign)
	}
	for _, v := range parts {
		if err := e.Encode(v); err != nil {
			panic(fmt.Sprintf("templates: encoding JSON that was decoded: %v", err))
		}
	}
	sum := sha256.Sum256(text.Bytes())
	return hex.EncodeToString(sum[:8])
}
