package directive

import (
	"cmp"
	"strings"
)

// The directives. Rendering evaluates If, For and Each; the merge reads the others.
const (
	If         = "$if"
	For        = "$for"
	Each       = "$each"
	Position   = "$position"
	OnConflict = "$onConflict"
	Patch      = "$patch"
	Unset      = "$unset"
	Append     = "$append"
	Prepend    = "$prepend"
)

// valueField is the field with the value, beside a directive that joins a text or that applies to one scalar.
const valueField = "value"

// The policies of $onConflict.
const (
	Deny      = "Deny"
	KeepPod   = "KeepPod"
	Overwrite = "Overwrite"
)

// The values of $patch.
const (
	patchDelete  = "delete"
	patchReplace = "replace"
)

// sides are the joining directives, each with the side on which the text is joined.
var sides = map[string]Side{Append: Behind, Prepend: InFront}

// Names returns the names of all directives.
func Names() []string {
	return []string{If, For, Each, Position, OnConflict, Patch, Unset, Append, Prepend}
}

// Is reports whether an object's key is that of a directive, known or not.
func Is(key string) bool { return strings.HasPrefix(key, "$") }

// Directives are the parsed directives of one object. The zero value has none. Malformed directives are left
// out: [Check] reports them.
type Directives struct {
	Position Place
	// Conflict is the object's own policy, "" for none.
	Conflict string
	// Delete and Replace are the values of $patch.
	Delete, Replace bool
	// Marker is set for {$patch: replace} alone: as an item, it applies to the whole list.
	Marker bool
	// Unset are the names of the fields to remove, in the given order.
	Unset []string
	// Join is nil for an object without a joining directive.
	Join *Join
}

// Join is a text to join to a value.
type Join struct {
	Side Side
	// Separator separates the text from the value. It is not empty.
	Separator string
	// Text may be empty. An empty text adds nothing.
	Text string
}

// Side is the side of a text at which another one is joined.
type Side int

// Behind is the side of $append, InFront the side of $prepend.
const (
	Behind Side = iota
	InFront
)

// Of returns the directives of v. It returns none if v is not an object.
func Of(v any) Directives {
	object, _ := v.(map[string]any)
	var d Directives
	for key, value := range object {
		if !Is(key) {
			continue
		}
		switch key {
		case Position:
			d.Position, _ = readPosition(value)
		case OnConflict:
			d.Conflict = readPolicy(value)
		case Patch:
			d.Delete, d.Replace = value == patchDelete, value == patchReplace
			d.Marker = d.Replace && len(object) == 1
		case Unset:
			d.Unset = readNames(value)
		default:
			d.Join = cmp.Or(d.Join, readJoin(key, object))
		}
	}
	return d
}

// readJoin parses a joining directive. It returns nil for a malformed or other directive.
func readJoin(key string, object map[string]any) *Join {
	side, joins := sides[key]
	separator, _ := object[key].(string)
	text, _ := Value(object).(string)
	if !joins || separator == "" {
		return nil
	}
	return &Join{Side: side, Separator: separator, Text: text}
}

// readNames returns the names in a $unset, nil if it is malformed.
func readNames(v any) []string {
	list, _ := v.([]any)
	var names []string
	for _, item := range list {
		name, ok := item.(string)
		if !ok || name == "" || strings.Contains(name, "${") {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// readPolicy returns the policy of an $onConflict, "" for a malformed one.
func readPolicy(v any) string {
	switch v {
	case Deny, KeepPod, Overwrite:
		return v.(string)
	}
	return ""
}

// Value returns the value of an object that replaces one scalar: {$onConflict: KeepPod, value: 60} or {$append:
// ",", value: "8080"}.
func Value(object map[string]any) any { return object[valueField] }
