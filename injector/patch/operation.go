package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/mattbaird/jsonpatch"

	"github.com/pillion-dev/pillion/templates/facts"
	"github.com/pillion-dev/pillion/templates/rawjson"
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
	op    jsonpatch.JsonPatchOperation
	known facts.Stores
}

// New returns the operation op at the value that path leads to. Path holds
// unescaped object keys and, for arrays, decimal indexes or "-" (behind the
// last item, for [Add] only). Value is JSON as encoding/json decodes it with
// UseNumber, and nil means null. The operation keeps it without a copy, so the
// caller must not change it later. [Remove] takes no value. Known is what is known about
// values that never change.
//
// The error says which part cannot be sent: an unknown op, an empty path, a key
// or text that is not UTF-8 (encoding it would change it), a number that is not
// one in JSON, or a Go type that JSON does not have.
func New(op string, path []string, value any, known ...*facts.Store) (Operation, error) {
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
	if err := validateKnown(known, value); err != nil {
		return Operation{}, fmt.Errorf("building a patch operation: value for %s: %w", pointer, err)
	}
	return Operation{op: jsonpatch.NewPatch(op, pointer, value), known: known}, nil
}

// Op returns add, replace, remove or test.
func (o Operation) Op() string { return o.op.Operation }

// Pointer returns the RFC 6901 pointer, escaped.
func (o Operation) Pointer() string { return o.op.Path }

// Value returns the operation's value; nil for null, and for remove.
func (o Operation) Value() any { return o.op.Value }

// MarshalJSON returns the operation as RFC 6902 has it, numbers as they were
// written.
func (o Operation) MarshalJSON() ([]byte, error) { return o.append(nil), nil }

func (o Operation) append(b []byte) []byte {
	b = append(rawjson.Append(append(b, `{"op":`...), o.op.Operation), `,"path":`...)
	b = rawjson.Append(b, o.op.Path)
	if o.op.Operation != Remove {
		b = rawjson.AppendKnown(append(b, `,"value":`...), o.op.Value, o.known)
	}
	return append(b, '}')
}

// Marshal returns the patch as a JSON array, `[]` for no operations.
func Marshal(ops []Operation) []byte {
	b := []byte{'['}
	for i, o := range ops {
		if i > 0 {
			b = append(b, ',')
		}
		b = o.append(b)
	}
	return append(b, ']')
}

var errNotUTF8 = errors.New("not valid UTF-8")

// sendable is known of a value that never changes if validate has found nothing.
var sendable = facts.NewQuestion[bool]()

// validateKnown is validate, with what is known about values that never change.
func validateKnown(known facts.Stores, v any) error {
	f := known.Of(v)
	if _, ok := sendable.Known(f); ok {
		return nil
	}
	err := validate(known, v)
	if err == nil {
		sendable.Answer(f, func() bool { return true })
	}
	return err
}

// validate returns an error if the API server's decoder would not return v as it
// is.
func validate(known facts.Stores, v any) error {
	switch v := v.(type) {
	case nil, bool:
		return nil
	case string:
		return validText(v)
	case json.Number:
		return validNumber(v)
	case []any:
		for i, item := range v {
			if err := validateKnown(known, item); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	case map[string]any:
		for key, item := range v {
			if err := validText(key); err != nil {
				return fmt.Errorf("key: %w", err)
			}
			if err := validateKnown(known, item); err != nil {
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
