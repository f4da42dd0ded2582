package directive

import (
	"cmp"
	"strings"
)

// The directives. If, For and Each are gone once a template is rendered; the
// merge reads the others.
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

// valueField is the field beside a directive that joins a text, and beside a directive that stands in the place
// of one scalar, that has the value.
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

// sides are the directives that join a text to what is there, and the side of each.
var sides = map[string]Side{Append: Behind, Prepend: InFront}

// Names returns the names of all directives.
func Names() []string {
	return []string{If, For, Each, Position, OnConflict, Patch, Unset, Append, Prepend}
}

// Is reports whether an object's key is a directive's, known or not.
func Is(key string) bool { return strings.HasPrefix(key, "$") }

// Directives are what the directives of one object say to the merge. The zero value says
// nothing. What is malformed says nothing either: [Check] tells of it.
type Directives struct {
	Position Place
	// Conflict is the object's own policy, "" for none.
	Conflict string
	// Delete and Replace are the values of $patch.
	Delete, Replace bool
	// Marker is set for {$patch: replace} alone: as an item, it speaks of the whole list.
	Marker bool
	// Unset are the names of the fields that go, in the order given.
	Unset []string
	// Join is nil for an object that joins nothing.
	Join *Join
}

// Join is a text that is joined to what is there.
type Join struct {
	Side Side
	// Separator stands between the text and what is there. It is not empty.
	Separator string
	// Text may be empty. An empty text adds nothing.
	Text string
}

// Side is the side of a text on which another one is joined to it.
type Side int

// Behind is the side of $append, and InFront that of $prepend.
const (
	Behind Side = iota
	InFront
)

// Of returns what the directives of v say, if v is an object.
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

// readJoin returns what a directive that joins a text says, and nil if it is malformed or
// another one.
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

// readPolicy returns the policy of an $onConflict, "" if it is none.
func readPolicy(v any) string {
	switch v {
	case Deny, KeepPod, Overwrite:
		return v.(string)
	}
	return ""
}

// Value returns the value of an object that stands in the place of one scalar:
// {$onConflict: KeepPod, value: 60} or {$append: ",", value: "8080"}.
func Value(object map[string]any) any { return object[valueField] }
