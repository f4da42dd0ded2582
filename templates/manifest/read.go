package manifest

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/templates/rawjson"
	"github.com/pillion-dev/pillion/templates/show"
)

// MaxBytes is the size of the largest manifest, about the API server's limit.
const MaxBytes = 1 << 20

// Error is the reason why a text is not a manifest.
type Error struct {
	// Line is the line in the file, from 1. It is 0 if unknown.
	Line    int
	Message string
}

func (e *Error) Error() string { return e.Message }

func errorf(format string, args ...any) *Error { return &Error{Message: fmt.Sprintf(format, args...)} }

// Read decodes a manifest as kubectl does, with numbers as json.Number. The source is the manifest's. Its error
// is an *Error.
func Read(text []byte, s *Source) (map[string]any, error) {
	if len(text) > MaxBytes {
		return nil, errorf("the manifest has %d bytes; at most %d are allowed", len(text), MaxBytes)
	}
	original, isYAML := text, !json.Valid(text)
	if isYAML {
		if len(splitDocuments(text)) > 1 {
			return nil, errorf("the manifest holds several documents; split it first")
		}
		var err error
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return nil, s.unreadable(err)
		}
	}
	v, err := rawjson.Decode(text)
	if err != nil {
		return nil, errorf("reading the manifest as JSON: %s", show.Plain(err.Error()))
	}
	if isYAML {
		if err := CheckKeys(original, v); err != nil {
			return nil, err
		}
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errorf("the manifest must be an object; got %s", show.Kind(v))
	}
	return object, nil
}

// CheckKeys refuses YAML with two keys in one map that have the same text in JSON, such as 1 and 1.0: which one
// would win is random. Value is the decoded text. The error is an *Error.
func CheckKeys(text []byte, value any) error {
	var inYAML any
	if err := yamlv2.Unmarshal(text, &inYAML); err == nil && entries(inYAML) != entries(value) {
		return errorf("two keys of a map are the same once they are text, as 1 and 1.0 are: change one, or quote both")
	}
	return nil
}

// entries counts the entries of all maps in a value.
func entries(v any) int {
	n := 0
	switch v := v.(type) {
	case map[any]any:
		n = len(v)
		for _, value := range v {
			n += entries(value)
		}
	case map[string]any:
		n = len(v)
		for _, value := range v {
			n += entries(value)
		}
	case []any:
		for _, value := range v {
			n += entries(value)
		}
	}
	return n
}

// yamlLine matches the line that the YAML library's errors begin with.
var yamlLine = regexp.MustCompile(`(?:error converting YAML to JSON: )?(?:yaml: )?line (\d+): `)

// unreadable moves the line in the YAML library's error from the text to the field Line.
func (s *Source) unreadable(err error) *Error {
	message, line := show.Plain(err.Error()), 0
	if found := yamlLine.FindStringSubmatch(message); found != nil {
		line, _ = strconv.Atoi(found[1])
		line = s.inFile(line)
		message = strings.Replace(message, found[0], "", 1)
	}
	return &Error{Line: line, Message: "reading the manifest as YAML: " + strings.TrimPrefix(message, "yaml: ")}
}

// FormatNumber writes a finite number as JSON.
func FormatNumber(f float64) string {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.FormatFloat(f, format, -1, 64)
}
