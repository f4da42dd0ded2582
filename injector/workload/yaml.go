package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/templates/manifest"
)

// fromYAML reads one YAML document as kubectl does: y, no and off are booleans, too. Unlike
// kubectl, which rounds to float64, it keeps numbers as they are written. An empty document
// is nil.
func fromYAML(raw []byte) (map[string]any, error) {
	converted, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, err
	}
	objects, err := decodeJSON(converted)
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	if err := manifest.CheckKeys(raw, objects[0]); err != nil {
		return nil, err
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(raw, &document); err != nil || len(document.Content) == 0 {
		return objects[0], nil // YAML 1.1 that the other reader does not know
	}
	exact(objects[0], document.Content[0])
	return objects[0], nil
}

// jsonNumber matches texts that are numbers in both JSON and YAML.
var jsonNumber = regexp.MustCompile(`\A-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\z`)

// exact returns value with the numbers as node has them. Objects and lists are changed in
// place. Values that node writes differently, such as the keys of a merge (<<), stay.
func exact(value any, node *yamlv3.Node) any {
	if node.Kind == yamlv3.AliasNode {
		node = node.Alias
	}
	switch value := value.(type) {
	case map[string]any:
		if node.Kind != yamlv3.MappingNode {
			return value
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			if v, ok := value[key]; ok {
				value[key] = exact(v, node.Content[i+1])
			}
		}
	case []any:
		if node.Kind != yamlv3.SequenceNode || len(node.Content) != len(value) {
			return value
		}
		for i, v := range value {
			value[i] = exact(v, node.Content[i])
		}
	case json.Number:
		if node.Kind == yamlv3.ScalarNode && jsonNumber.MatchString(node.Value) {
			return json.Number(node.Value)
		}
	}
	return value
}

// YAML writes a JSON object as kubectl does, with sorted keys. Unlike kubectl, it keeps
// numbers as they are. A [yamlv3.Node] in the object is written as it is.
func YAML(object map[string]any) (string, error) {
	node, err := nodeOf(object)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	e := yamlv3.NewEncoder(&out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(node); err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	return out.String(), nil
}

func nodeOf(value any) (*yamlv3.Node, error) {
	switch value := value.(type) {
	case map[string]any:
		node := &yamlv3.Node{Kind: yamlv3.MappingNode}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			name, err := nodeOf(key)
			if err != nil {
				return nil, err
			}
			v, err := nodeOf(value[key])
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, name, v)
		}
		return flowIfEmpty(node), nil
	case []any:
		node := &yamlv3.Node{Kind: yamlv3.SequenceNode}
		for _, item := range value {
			v, err := nodeOf(item)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, v)
		}
		return flowIfEmpty(node), nil
	case json.Number:
		return &yamlv3.Node{Kind: yamlv3.ScalarNode, Value: value.String()}, nil
	case *yamlv3.Node:
		return value, nil
	}
	if value == "<<" { // as a key it would be a merge
		return &yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: "!!str", Style: yamlv3.DoubleQuotedStyle, Value: "<<"}, nil
	}
	node := &yamlv3.Node{}
	if err := node.Encode(value); err != nil {
		return nil, fmt.Errorf("writing %T as YAML: %w", value, err)
	}
	return node, nil
}

// flowIfEmpty makes the encoder write empty lists and objects as [] and {}.
func flowIfEmpty(node *yamlv3.Node) *yamlv3.Node {
	if len(node.Content) == 0 {
		node.Style = yamlv3.FlowStyle
	}
	return node
}
