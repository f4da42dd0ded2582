package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	yamlv3 "go.yaml.in/yaml/v3"
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
		if text, err = yaml.YAMLToJSON(original); err != nil {
			return nil, s.unreadable(original, err)
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

// unreadable returns the YAML library's error, with the line of the mistake in place of the one in its text.
func (s *Source) unreadable(text []byte, err error) *Error {
	message, line := show.Plain(err.Error()), 0
	if found := yamlLine.FindStringSubmatch(message); found != nil {
		line, _ = strconv.Atoi(found[1])
		message = strings.Replace(message, found[0], "", 1)
	}
	message = "reading the manifest as YAML: " + strings.TrimPrefix(message, "yaml: ")
	lines := bytes.SplitAfter(text, []byte("\n"))
	if mistake := mistakenLine(lines); mistake > 0 {
		line = mistake
		if unquoted.Match(lines[line-1]) {
			message = "reading the manifest as YAML: inside {…} and […] quote ${…}, as in {name: \"${params.name}\"}"
		} else {
			message += repair(message, lines[line-1])
		}
	}
	if line > 0 {
		line = s.inFile(line)
	}
	return &Error{Line: line, Message: message}
}

// repair completes a message of the YAML library about a line.
func repair(message string, line []byte) string {
	indentation := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	switch {
	case bytes.ContainsRune(indentation, '\t'):
		return "; indent with spaces, not with tabs"
	case strings.HasSuffix(message, "cannot start any token"):
		return "; quote the text"
	case strings.Contains(message, "mapping values are not allowed"):
		return `; quote a text with ": " in it, and compare the indentation of the line with the one before`
	case strings.Contains(message, "did not find expected"):
		return "; compare the indentation of the line with the one before, and close quotes and brackets"
	}
	return ""
}

// unquoted matches a line with ${ outside of quotes, behind a brace or a bracket.
var unquoted = regexp.MustCompile(`^` + outsideQuotes + `(?:^|[^$])[{\[]` + outsideQuotes + `\$\{`)

const outsideQuotes = `(?:[^'"]|'[^']*'|"[^"]*")*`

// mostLines bounds the search for the line of a mistake, which parses the text once for each line.
const mostLines = 500

// mistakenLine returns the line, from 1, at which a text ceases to be YAML however it goes on: the one behind the
// longest beginning that is YAML. The library names the line at which the block begins, or the one before the
// mistake. It returns 0 for a long text, and for one that is YAML.
func mistakenLine(lines [][]byte) int {
	for n := len(lines); n >= 0 && len(lines) <= mostLines; n-- {
		if yamlv3.Unmarshal(bytes.Join(lines[:n], nil), new(yamlv3.Node)) == nil {
			return (n + 1) % (len(lines) + 1) // 0 if all of it is YAML
		}
	}
	return 0
}

// FormatNumber writes a finite number as JSON.
func FormatNumber(f float64) string {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.FormatFloat(f, format, -1, 64)
}
