package manifest

import (
	"bytes"
	"encoding/json"
	"regexp"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// Document is one manifest of a file.
type Document struct {
	// Manifest is its text.
	Manifest []byte
	// Line is the file's line at which it begins, from 1.
	Line int
}

var documentStart = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$`)

// Documents splits a file into its manifests: documents of multi-document YAML, or the one
// of a JSON file, and of a List, as `kubectl get sidecartemplates -o yaml` prints it, the
// items. Documents without content are left out. What is in a manifest is not looked at.
func Documents(data []byte) []Document {
	var docs []Document
	for _, d := range splitDocuments(data) {
		items, ok := d.items()
		if !ok {
			items = []Document{d}
		}
		docs = append(docs, items...)
	}
	return docs
}

// items returns the items of a List, which keep their lines. It returns false for anything
// else, and for a List in YAML's flow style.
func (d Document) items() ([]Document, bool) {
	if !bytes.Contains(d.Manifest, []byte("items")) || !bytes.Contains(d.Manifest, []byte("List")) {
		return nil, false
	}
	if json.Valid(d.Manifest) {
		return d.itemsOfJSON()
	}
	if otherBreaks.Match(d.Manifest) {
		return nil, false
	}
	s := NewSource(d.Manifest, 1)
	if s.root == nil || s.root.Kind != yamlv3.MappingNode {
		return nil, false
	}
	isList := false
	var list *yamlv3.Node
	for i := 0; i+1 < len(s.root.Content); i += 2 {
		switch key, value := s.root.Content[i].Value, s.root.Content[i+1]; key {
		case "kind":
			isList = isListKind(value.Value)
		case "items":
			list = value
		}
	}
	if !isList || list == nil || list.Kind != yamlv3.SequenceNode || list.Style&yamlv3.FlowStyle != 0 && len(list.Content) > 0 {
		return nil, false
	}
	lines := bytes.SplitAfter(d.Manifest, []byte("\n"))
	items := make([]Document, len(list.Content))
	for i, item := range list.Content {
		items[i] = Document{Manifest: blockItem(lines[item.Line-1:], item.Column-1), Line: d.Line + item.Line - 1}
	}
	return items, true
}

// otherBreaks matches what ends a line in YAML, and not in the text of a file.
var otherBreaks = regexp.MustCompile("\r(?:[^\n]|\\z)|[\u0085\u2028\u2029]")

func isListKind(kind string) bool {
	return kind == "List" || kind == v1alpha1.Kind+"List" || kind == v1alpha1.NamespacedKind+"List"
}

// blockItem returns the text of an item of a list in block style, which begins in the first
// line at the column indent, from 0, and ends before the next line that begins before it.
func blockItem(lines [][]byte, indent int) []byte {
	text := append(bytes.Repeat([]byte(" "), indent), lines[0][min(indent, len(lines[0])):]...)
	for _, line := range lines[1:] {
		content := bytes.TrimLeft(line, " ")
		if blank := len(bytes.TrimSpace(content)) == 0; !blank && content[0] != '#' && len(line)-len(content) < indent {
			break
		}
		text = append(text, line...)
	}
	return text
}

// itemsOfJSON is items for what is valid JSON.
func (d Document) itemsOfJSON() ([]Document, bool) {
	var head struct{ Kind string }
	if json.Unmarshal(d.Manifest, &head) != nil || !isListKind(head.Kind) {
		return nil, false
	}
	var items []Document
	decoder := json.NewDecoder(bytes.NewReader(d.Manifest))
	_, _ = decoder.Token() // the object's {; it is valid
	for decoder.More() {
		if key, _ := decoder.Token(); key != "items" {
			var other json.RawMessage
			_ = decoder.Decode(&other)
			continue
		}
		if open, _ := decoder.Token(); open != json.Delim('[') {
			return nil, false
		}
		for decoder.More() {
			var item json.RawMessage
			_ = decoder.Decode(&item)
			begin := int(decoder.InputOffset()) - len(item)
			items = append(items, Document{Manifest: item, Line: d.Line + bytes.Count(d.Manifest[:begin], []byte("\n"))})
		}
		_, _ = decoder.Token() // ]
	}
	return items, true
}

// splitDocuments splits a file at the lines that begin with ---.
func splitDocuments(data []byte) []Document {
	var docs []Document
	start, line := 0, 1
	add := func(end int) {
		text := data[start:end]
		if !isBlank(text) {
			docs = append(docs, Document{Manifest: text, Line: line})
		}
		line += bytes.Count(text, []byte("\n"))
		start = end
	}
	for _, at := range documentStart.FindAllIndex(data, -1) {
		add(at[0])
	}
	add(len(data))
	return docs
}

// isBlank reports whether text holds nothing but comments, white space and marks
// of documents.
func isBlank(text []byte) bool {
	for _, l := range bytes.Split(text, []byte("\n")) {
		l = bytes.TrimSpace(l)
		l = bytes.TrimSpace(bytes.TrimPrefix(l, []byte("---")))
		if len(l) > 0 && l[0] != '#' && !bytes.Equal(l, []byte("...")) {
			return false
		}
	}
	return true
}
