package directive

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/nearest"
)

// Where is the place of an object in the pod.
type Where struct {
	// Path has the fields from the pod down to the object, and an element for the item after each list. Check
	// does not read that element.
	Path []string
	// Item is set for an item of a list.
	Item bool
	// Keyed is set for an item of a list whose items have names or keys.
	Keyed bool
	// Gathered is set for an item of a list without keys to which the merge adds items. A marker for the whole
	// list is allowed there.
	Gathered bool
	// Whole is set for an object that is compared and replaced as one value.
	Whole bool
	// Scalar is set for an object that replaces one scalar. It has the scalar as its value, and directives.
	Scalar bool
	// Inside is set for a part of such a value. Directives are not allowed there, except in an item of a
	// [podschema.Gathered] list.
	Inside bool
}

// Problem is a mistake in one directive of an object.
type Problem struct {
	// Key is the directive.
	Key string
	// Message describes the mistake without the directive's name.
	Message string
}

// Check returns the mistakes in the directives of an object, in the order of their names. The object is
// rendered, or is the manifest's without $if, $for and $each.
func Check(object map[string]any, where Where) []Problem {
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !Is(key) {
			continue
		}
		if wrong := check(key, object, where); wrong != "" {
			problems = append(problems, Problem{Key: key, Message: wrong})
		}
	}
	return problems
}

const insideOneValue = "cannot be used inside what the API treats as one value"

func check(key string, object map[string]any, where Where) string {
	_, joins := sides[key]
	wrong := ""
	switch {
	case where.Scalar && key != OnConflict && !joins && slices.Contains(Names(), key):
		return "cannot be used for a single value" + scalarForm
	case key == If, key == For, key == Each:
		return "is for templates; a rendered fragment has none"
	case key == Position:
		return checkPosition(object[key], where)
	case key == Patch:
		return checkPatch(object, where)
	case key == Unset:
		return checkUnset(object, where)
	case key == OnConflict:
		wrong = checkConflict(object, where)
	case joins:
		wrong = checkJoin(key, object, where)
	default:
		return "unknown directive" + nearest.Hint(key, Names())
	}
	if wrong == "" && where.Scalar {
		wrong = checkScalar(object)
	}
	return wrong
}

const scalarForm = "; write {$onConflict: KeepPod, value: V}, or for the value of an annotation {$append: \",\", value: TEXT}"

// checkScalar checks an object that replaces one scalar.
func checkScalar(object map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if name != valueField && !Is(name) {
			return fmt.Sprintf("is used for a single value, so the field %q is not allowed%s", name, scalarForm)
		}
	}
	if object[valueField] == nil {
		return "is used for a single value, which is missing" + scalarForm
	}
	return ""
}

// checkJoin checks a joining directive, on an environment variable or on an annotation's value.
func checkJoin(key string, object map[string]any, where Where) string {
	separator, ok := object[key].(string)
	verb := strings.TrimPrefix(key, "$")
	switch {
	case where.Inside:
		return insideOneValue
	case !isVariable(where) && !isAnnotation(where):
		return "is only for items of a container's env, and for the values of annotations"
	case !ok || separator == "" || strings.Contains(separator, "${"):
		return "must be the text between the parts, such as \" \" or \",\": not empty, and without expressions"
	case object["valueFrom"] != nil:
		return verb + "s text, so valueFrom is not allowed; use value"
	case object[valueField] == nil:
		return fmt.Sprintf("needs value, the text to %s", verb)
	}
	others := append(slices.Sorted(maps.Keys(sides)), OnConflict, Patch, Unset)
	for _, other := range others {
		if other != key && object[other] != nil {
			return fmt.Sprintf("cannot be combined with %s: joined text leaves the pod's text in place; use one of the two", other)
		}
	}
	return ""
}

func isVariable(w Where) bool {
	return w.Item && w.Keyed && len(w.Path) == 5 && w.Path[0] == "spec" && (w.Path[1] == "containers" || w.Path[1] == "initContainers") && w.Path[3] == "env"
}

func isAnnotation(w Where) bool {
	return w.Scalar && len(w.Path) == 3 && w.Path[0] == "metadata" && w.Path[1] == "annotations"
}

func checkPosition(v any, where Where) string {
	if !where.Item || !where.Keyed || where.Inside {
		return "is only for items of lists whose items have names or keys"
	}
	if _, ok := readPosition(v); !ok {
		return "must be First, Last, {before: NAME} or {after: NAME}"
	}
	return ""
}

func checkConflict(object map[string]any, where Where) string {
	if where.Inside {
		return insideOneValue
	}
	if readPolicy(object[OnConflict]) == "" {
		return "must be one of " + strings.Join([]string{Deny, KeepPod, Overwrite}, ", ")
	}
	return ""
}

func checkPatch(object map[string]any, where Where) string {
	path, says := where.Path, Of(object)
	if says.Marker && where.Item && (where.Keyed && !where.Inside || where.Gathered) {
		path = path[:len(path)-1] // it applies to the list
	} else if where.Inside {
		return insideOneValue
	} else if where.Item && !where.Keyed {
		return "is only for items of lists whose items have names or keys"
	}
	switch {
	case Pinned(path...):
		return takesAway(path)
	case !says.Delete && !says.Replace:
		return "must be delete or replace"
	case says.Replace && isContainer(path) && object["image"] == nil:
		return "replaces a container of the pod; give the item an image"
	}
	return ""
}

func isContainer(path []string) bool {
	return len(path) == 3 && path[0] == "spec" && (path[1] == "containers" || path[1] == "initContainers")
}

func checkUnset(object map[string]any, where Where) string {
	if where.Inside {
		return insideOneValue
	}
	if where.Whole {
		return "cannot be used inside an atomic value; write the whole value, with $patch: replace"
	}
	names := readNames(object[Unset])
	if names == nil {
		return "must be a list of names of this object's fields"
	}
	for _, name := range names {
		path := append(slices.Clone(where.Path), name)
		switch {
		case Is(name):
			return fmt.Sprintf("names the directive %s; it must name fields", name)
		case object[name] != nil:
			return fmt.Sprintf("removes %s, which this object also sets; use one of the two", name)
		case Pinned(path...):
			return takesAway(path)
		}
	}
	return ""
}

func takesAway(path []string) string {
	place := strings.Join(path, ".")
	if place == "" {
		place = "the pod itself"
	}
	return "would remove what no template may remove: " + place
}
