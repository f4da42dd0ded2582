package patch

import (
	"github.com/mattbaird/jsonpatch"

	"github.com/pillion-dev/pillion/templates/rawjson"
)

// The supported operations of RFC 6902. Pillion needs neither move nor copy.
const (
	Add     = "add"
	Replace = "replace"
	Remove  = "remove"
	Test    = "test"
)

// Operation is one step of a JSON patch. Only [New] makes one.
type Operation struct{ op jsonpatch.JsonPatchOperation }

// New returns the operation op at the value that path leads to. Path holds
// unescaped object keys and, for arrays, decimal indexes or "-" (behind the
// last item, for [Add] only). Value is JSON as encoding/json decodes it with
// UseNumber, and nil means null, or no value for [Remove]. The operation keeps it without a
// copy, so the caller must not change it later. [Check] finds what cannot be sent.
func New(op string, path []string, value any) Operation {
	return Operation{op: jsonpatch.NewPatch(op, pointerOf(path), value)}
}

// Pointer returns the RFC 6901 pointer, escaped.
func (o Operation) Pointer() string { return o.op.Path }

// Value returns the operation's value; nil for null, and for remove.
func (o Operation) Value() any { return o.op.Value }

// MarshalJSON returns the operation as RFC 6902 defines it, with the numbers as they were written.
func (o Operation) MarshalJSON() ([]byte, error) { return o.appendTo(nil), nil }

func (o Operation) appendTo(b []byte) []byte {
	b = append(rawjson.Append(append(b, `{"op":`...), o.op.Operation), `,"path":`...)
	b = rawjson.Append(b, o.op.Path)
	if o.op.Operation != Remove {
		b = rawjson.Append(append(b, `,"value":`...), o.op.Value)
	}
	return append(b, '}')
}

// Marshal returns the patch as a JSON array, `[]` for no operations.
func Marshal(ops []Operation) []byte {
	b := append(make([]byte, 0, 8<<10), '[')
	for i, o := range ops {
		if i > 0 {
			b = append(b, ',')
		}
		b = o.appendTo(b)
	}
	return append(b, ']')
}
