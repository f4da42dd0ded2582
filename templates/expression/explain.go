package expression

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"

	"github.com/pillion-dev/pillion/templates/nearest"
	"github.com/pillion-dev/pillion/templates/show"
)

var (
	undefinedField     = regexp.MustCompile(`^undefined field '([^']*)'`)
	undeclaredName     = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	reservedIdentifier = regexp.MustCompile(`reserved identifier: namespace`)
	shellVariable      = regexp.MustCompile(`^\s*[A-Z_][A-Z0-9_]*\s*$`)
)

// explainIssues writes what is wrong with an expression in one line, each issue
// with its place marked.
func explainIssues(issues *cel.Issues, objects *provider, source string) string {
	var lines []string
	for _, issue := range issues.Errors() {
		if line := explainIssue(issue, objects, source); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

func explainIssue(issue *cel.Error, objects *provider, source string) string {
	message := strings.ReplaceAll(issue.Message, " (in container '')", "")
	offset := offsetOf(source, issue.Location)
	switch {
	case undefinedField.MatchString(message):
		message = explainField(undefinedField.FindStringSubmatch(message)[1], objects)
		// CEL's place of a selection is its dot.
		offset += len(source[offset:]) - len(strings.TrimLeft(source[offset:], ".? \t\n"))
	case undeclaredName.MatchString(message):
		name := undeclaredName.FindStringSubmatch(message)[1]
		if shellVariable.MatchString(source) {
			message += fmt.Sprintf("; for the literal text ${%s} write $${%s}", source, source)
		} else {
			message += explainName(name)
		}
	case reservedIdentifier.MatchString(message):
		message += "; the namespace is namespaceObject"
	case strings.Contains(message, "expected type"):
		message += "; for a map or list of mixed types wrap its values in dyn()"
	}
	return show.Plain(fmt.Sprintf("in the expression %s: %s", show.Marked(source, offset), message))
}

// functionNames are the names of the functions that expressions may call, without operators, in
// order.
var functionNames = sync.OnceValue(func() []string {
	var names []string
	for name := range baseEnvironment().Functions() {
		if first := name[0]; (first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z') && !strings.Contains(name, "@") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Clip(names)
})

// explainName ends the message about a name that is neither visible nor a function.
func explainName(name string) string {
	if name == eachName {
		return "; it is there in items with $each, and in variables that such items read"
	}
	if near, ok := nearest.Name(name, append(functionNames(), visibleNames...)); ok {
		return "; did you mean " + near + "?"
	}
	return nearest.Hint(name, visibleNames)
}

func explainField(name string, objects *provider) string {
	switch of := objects.missed[name]; of {
	case variablesType:
		return fmt.Sprintf("no variable %s is declared before this%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(objects.variables))))
	case paramsType:
		return fmt.Sprintf("no parameter %s is declared%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(objects.params))))
	default:
		fields, _ := objects.fields(of)
		return fmt.Sprintf("%s has no field %s%s", strings.ReplaceAll(of, "/", "."), name, nearest.Hint(name, slices.Sorted(maps.Keys(fields))))
	}
}

// offsetOf returns the byte in source that a place of CEL's stands for. It is 0 if there is no
// such place.
func offsetOf(source string, at common.Location) int {
	characters := []rune(source)
	offset, ok := common.NewTextSource(source).LocationOffset(at)
	if !ok || offset < 0 || int(offset) > len(characters) {
		return 0
	}
	return len(string(characters[:offset]))
}

// explain adds to an error of an evaluation where in the expression it arose.
func (e *Expression) explain(err error) string {
	message := err.Error()
	var failed *types.Err
	if !errors.As(err, &failed) {
		return message
	}
	info := e.ast.SourceInfo()
	id := failed.NodeID()
	_, known := info.GetOffsetRange(id)
	if closer := e.placeOf(failed); closer != 0 {
		id, known = closer, true
	}
	if !known {
		return message
	}
	offset := offsetOf(e.source, info.GetStartLocation(id))
	return message + ", in the expression " + show.Marked(e.source, offset) + e.suggestion(failed, id)
}
