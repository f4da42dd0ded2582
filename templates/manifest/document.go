package manifest

import (
	"bytes"
	"regexp"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

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

// Documents splits a file into its manifests: the documents of YAML, the one document of a JSON file, and the
// items of a List, as `kubectl get sidecartemplates -o yaml` prints it. It leaves out empty documents, and does
// not look into manifests.
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

// items returns the items of a List, each on one line. It reports false for any other document.
func (d Document) items() ([]Document, bool) {
	if !bytes.Contains(d.Manifest, []byte("List")) {
		return nil, false
	}
	s := NewSource(d.Manifest, d.Line)
	isList := false
	var list *yamlv3.Node
	for i := 0; s.root != nil && s.root.Kind == yamlv3.MappingNode && i+1 < len(s.root.Content); i += 2 {
		switch key, value := s.root.Content[i].Value, s.root.Content[i+1]; key {
		case "kind":
			isList = isListKind(value.Value)
		case "items":
			list = value
		}
	}
	if !isList || list == nil || list.Kind != yamlv3.SequenceNode {
		return nil, false
	}
	items := make([]Document, len(list.Content))
	for i, item := range list.Content {
		text, err := yamlv3.Marshal(resolved(item))
		if err == nil {
			text, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			return nil, false
		}
		items[i] = Document{Manifest: text, Line: s.inFile(item.Line)}
	}
	return items, true
}

func isListKind(kind string) bool {
	return kind == "List" || kind == v1alpha1.Kind+"List" || kind == v1alpha1.NamespacedKind+"List"
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

// isBlank reports whether a text has only comments, white space and document markers.
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
