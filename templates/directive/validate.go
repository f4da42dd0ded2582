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

func check(key string, object map[string]any, where Where) string {
	_, joins := sides[key]
	wrong := ""
	switch {
	case where.Scalar && key != OnConflict && !joins && slices.Contains(Names(), key):
		return singleValue
	case key == If, key == For, key == Each:
		return onlyInTemplates
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
		return fmt.Sprintf(unknown, nearest.Hint(key, Names()))
	}
	if wrong == "" && where.Scalar {
		wrong = checkScalar(object)
	}
	return wrong
}

// checkScalar checks an object that replaces one scalar.
func checkScalar(object map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if name != valueField && !Is(name) {
			return fmt.Sprintf(otherField, name)
		}
	}
	if object[valueField] == nil {
		return missingValue
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
		return onlyTexts
	case !ok || separator == "" || strings.Contains(separator, "${"):
		return wrongSeparator
	case object["valueFrom"] != nil:
		return fmt.Sprintf(joinsSource, verb)
	case object[valueField] == nil:
		return fmt.Sprintf(joinsNothing, verb)
	}
	others := append(slices.Sorted(maps.Keys(sides)), OnConflict, Patch, Unset)
	for _, other := range others {
		if other != key && object[other] != nil {
			return fmt.Sprintf(joinsAndMore, other)
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
		return onlyKeyedItems
	}
	if _, ok := readPosition(v); !ok {
		return wrongPosition
	}
	return ""
}

func checkConflict(object map[string]any, where Where) string {
	if where.Inside {
		return insideOneValue
	}
	if readPolicy(object[OnConflict]) == "" {
		return wrongPolicy
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
		return onlyKeyedItems
	}
	switch {
	case pinned(path...):
		return takesAway(path)
	case !says.Delete && !says.Replace:
		return wrongPatch
	case says.Replace && isContainer(path) && object["image"] == nil:
		return needsImage
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
		return unsetsInValue
	}
	names := readNames(object[Unset])
	if names == nil {
		return wrongNames
	}
	for _, name := range names {
		path := append(slices.Clone(where.Path), name)
		switch {
		case Is(name):
			return fmt.Sprintf(namesDirective, name)
		case object[name] != nil:
			return fmt.Sprintf(removesAndSets, name)
		case pinned(path...):
			return takesAway(path)
		}
	}
	return ""
}
