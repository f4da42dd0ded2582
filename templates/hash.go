package templates

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// canonical copies the installer's values as raw JSON.
func canonical(values map[string]any) (map[string]any, error) {
	if len(values) == 0 {
		return map[string]any{}, nil
	}
	return rawOf(values)
}

// rawOf converts a Go value to raw JSON.
func rawOf(object any) (map[string]any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	v, err := rawjson.Decode(data)
	raw, _ := v.(map[string]any)
	return raw, err
}

// valuesRead returns the installer's values that expressions read. If a path ends before its last field, the
// value there counts, unless it is an object.
func valuesRead(values map[string]any, reads expression.ValueReads) any {
	if reads.Whole {
		return values
	}
	var all []any
	sorted := slices.SortedFunc(slices.Values(reads.Fields), slices.Compare)
	for _, fields := range slices.CompactFunc(sorted, slices.Equal) {
		found, left := any(values), fields
		for len(left) > 0 {
			object, _ := found.(map[string]any)
			below, ok := object[left[0]]
			if !ok {
				break
			}
			found, left = below, left[1:]
		}
		if _, object := found.(map[string]any); object && len(left) > 0 {
			all = append(all, []any{fields})
			continue
		}
		all = append(all, []any{fields, len(left), found})
	}
	return all
}

// hashOf hashes the parts of the spec and of the values that rendering reads. It encodes the raw parts anew, so
// that white space and the order of keys do not count. Descriptions, examples, operating systems and exceptions
// do not count, either: they do not change an injected pod.
func hashOf(spec v1alpha1.SidecarTemplateSpec, values any, foreign []string) string {
	spec.OS, spec.Exceptions, spec.Description, spec.Parameters = nil, nil, "", slices.Clone(spec.Parameters)
	for i := range spec.Parameters {
		spec.Parameters[i].Description, spec.Parameters[i].Example = "", nil
	}
	object, err := rawOf(spec)
	if err != nil {
		panic(fmt.Sprintf("templates: encoding a spec that was decoded: %v", err))
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
