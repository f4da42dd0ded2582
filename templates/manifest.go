package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"sigs.k8s.io/yaml"
)

// MaxManifestBytes is the size of the largest manifest that is read, about what
// the API server stores.
const MaxManifestBytes = 1 << 20

// Document is one manifest of a file.
type Document struct {
	// Manifest is its text, for [Compile].
	Manifest []byte
	// Line is the file's line at which it begins, from 1, for [Options].
	Line int
}

var documentStart = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$`)

// ParseFile splits a file into its manifests: documents of multi-document YAML,
// or the one of a JSON file. Documents without content are left out. It does not
// look into them: that is for [Compile].
func ParseFile(data []byte) []Document {
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

// isBlank tells whether text holds nothing but comments, white space and marks
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

// readManifest returns the manifest as kubectl would send it.
func readManifest(manifest []byte, s *source) (map[string]any, error) {
	if len(manifest) > MaxManifestBytes {
		return nil, fmt.Errorf("the manifest has %d bytes; at most %d are allowed", len(manifest), MaxManifestBytes)
	}
	text := manifest
	if !json.Valid(manifest) {
		if err := s.checkAliases(); err != nil {
			return nil, err
		}
		if len(ParseFile(manifest)) > 1 {
			return nil, errors.New("the manifest holds several documents; split it first")
		}
		converted, err := yaml.YAMLToJSON(manifest)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest as YAML: %s", plain(err.Error()))
		}
		text = converted
	}
	v, err := decodeJSON(text)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest as JSON: %s", plain(err.Error()))
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the manifest is %s; want an object", kindOf(v))
	}
	return object, nil
}

// decodeJSON decodes exactly one value, numbers as json.Number.
func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the first value")
	}
	return v, nil
}

// kindOf names the kind of a JSON value in a message.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case json.Number, int64, float64:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}
