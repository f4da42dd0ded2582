package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/mattbaird/jsonpatch"
)

// The operations of RFC 6902 that this package knows. Move and copy are not
// among them: nothing here needs them.
const (
	Add     = "add"
	Replace = "replace"
	Remove  = "remove"
	Test    = "test"
)

// Operation is one valid step of a JSON patch. Only [New] makes one.
type Operation struct {
	op jsonpatch.JsonPatchOperation
}

// New returns the operation op at the value that path leads to. Path holds
// unescaped object keys and, for arrays, decimal indexes or "-" (behind the
// last item, for [Add] only). Value is JSON as encoding/json decodes it with
// UseNumber, and nil means null. The operation keeps it without a copy, so the
// caller must not change it later. [Remove] takes no value.
//
// The error says which part cannot be sent: an unknown op, an empty path, a key
// or text that is not UTF-8 (encoding it would change it), a number that is not
// one in JSON, or a Go type that JSON does not have.
func New(op string, path []string, value any) (Operation, error) {
	if !slices.Contains([]string{Add, Replace, Remove, Test}, op) {
		return Operation{}, fmt.Errorf("building a patch operation: unknown op %q, allowed are add, replace, remove and test", op)
	}
	if len(path) == 0 {
		return Operation{}, fmt.Errorf("building a patch operation: %s of the whole document is not allowed", op)
	}
	pointer, err := pointerOf(path)
	if err != nil {
		return Operation{}, fmt.Errorf("building a patch operation: %w", err)
	}
	if op == Remove && value != nil {
		return Operation{}, fmt.Errorf("building a patch operation: remove of %s has a value", pointer)
	}
	if err := validate(value); err != nil {
		return Operation{}, fmt.Errorf("building a patch operation: value for %s: %w", pointer, err)
	}
	return Operation{op: jsonpatch.NewPatch(op, pointer, value)}, nil
}

// Op returns add, replace, remove or test.
func (o Operation) Op() string { return o.op.Operation }

// Pointer returns the RFC 6901 pointer, escaped.
func (o Operation) Pointer() string { return o.op.Path }

// Value returns the operation's value; nil for null, and for remove.
func (o Operation) Value() any { return o.op.Value }

// MarshalJSON returns the operation as RFC 6902 has it, numbers as they were
// written.
func (o Operation) MarshalJSON() ([]byte, error) {
	if o.op.Operation == Remove {
		return encode(struct {
			Op   string `json:"op"`
			Path string `json:"path"`
		}{o.op.Operation, o.op.Path})
	}
	return encode(struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{o.op.Operation, o.op.Path, o.op.Value})
}

// Marshal returns the patch as a JSON array, `[]` for no operations.
func Marshal(ops []Operation) ([]byte, error) {
	if ops == nil {
		ops = []Operation{}
	}
	b, err := encode(ops)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch of %d operations: %w", len(ops), err)
	}
	return b, nil
}

// encode is json.Marshal without its replacing of <, > and &, which belongs in
// HTML pages and would make a patch longer.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

var errNotUTF8 = errors.New("not valid UTF-8")

// validate returns an error if the API server's decoder would not return v as it
// is.
func validate(v any) error {
	switch v := v.(type) {
	case nil, bool:
		return nil
	case string:
		return validText(v)
	case json.Number:
		return validNumber(v)
	case []any:
		for i, item := range v {
			if err := validate(item); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	case map[string]any:
		for key, item := range v {
			if err := validText(key); err != nil {
				return fmt.Errorf("key: %w", err)
			}
			if err := validate(item); err != nil {
				return fmt.Errorf("key %q: %w", key, err)
			}
		}
		return nil
	default:
		return fmt.Errorf("a Go %T, where JSON decoded with exact numbers has none", v)
	}
}

func validText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("text %q: %w", s, errNotUTF8)
	}
	return nil
}

func validNumber(n json.Number) error {
	s := string(n)
	digit := len(s) > 0 && (s[0] == '-' || s[0] >= '0' && s[0] <= '9')
	if !digit || !json.Valid([]byte(s)) {
		return fmt.Errorf("%q is not a JSON number", s)
	}
	return nil
}
