package directive

import (
	"slices"
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
)

// valueField is the field beside $append, and beside a directive that stands in the place
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

// Names returns the names of all directives.
func Names() []string { return []string{If, For, Each, Position, OnConflict, Patch, Unset, Append} }

// Is reports whether an object's key is a directive's, known or not.
func Is(key string) bool { return strings.HasPrefix(key, "$") }

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// IsDelete reports whether v is an object with $patch: delete.
func IsDelete(v any) bool { return object(v)[Patch] == patchDelete }

// IsReplace reports whether v is an object with $patch: replace.
func IsReplace(v any) bool { return object(v)[Patch] == patchReplace }

// IsMarker reports whether v, an item of a list, is {$patch: replace} alone. It
// speaks of the whole list.
func IsMarker(v any) bool { return IsReplace(v) && len(object(v)) == 1 }

// ReplacesList reports whether v is a list with a marker: it takes the place of
// the pod's list.
func ReplacesList(v any) bool {
	items, _ := v.([]any)
	return slices.ContainsFunc(items, IsMarker)
}

// UnsetFields returns the names in the object's $unset, in its order. It is nil
// if there is no $unset, or a malformed one.
func UnsetFields(object map[string]any) []string {
	list, _ := object[Unset].([]any)
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

// Value returns the value of an object that stands in the place of one scalar:
// {$onConflict: KeepPod, value: 60} or {$append: ",", value: "8080"}.
func Value(object map[string]any) any { return object[valueField] }

// AppendOf returns what the $append of v says: the text, and what separates it from the
// text before it. Ok is false if v has no $append, or a malformed one.
func AppendOf(v any) (separator, text string, ok bool) {
	separator, ok = object(v)[Append].(string)
	text, isText := object(v)[valueField].(string)
	return separator, text, ok && separator != "" && isText
}

// Appends reports whether v is an object with $append.
func Appends(v any) bool { return object(v)[Append] != nil }

// Conflict returns the object's own $onConflict. ok is false if there is none, or
// one that is no policy.
func Conflict(object map[string]any) (policy string, ok bool) {
	policy, _ = object[OnConflict].(string)
	switch policy {
	case Deny, KeepPod, Overwrite:
		return policy, true
	}
	return "", false
}
