package check

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// difference is a field of an object that differs from the chart's.
type difference struct {
	// field is a path such as webhooks[enforced.pillion.dev].rules[0].scope.
	field    string
	is, want any
}

// apiDefaults are the fields that API servers set if the chart does not render them, with their
// values. nil stands for any value.
var apiDefaults = map[string]any{
	"matchPolicy": "Equivalent", "failurePolicy": "Fail", "reinvocationPolicy": "Never", "scope": "*", "timeoutSeconds": 10.0, "port": 443.0,
	"type": "ClusterIP", "protocol": "TCP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
	"clusterIP": nil, "clusterIPs": nil, "ipFamilies": nil, "ipFamilyPolicy": nil,
}

// differences returns the deepest fields that differ. It compares items of lists by their names, and
// items without a name by their indexes if both lists have the same length.
func differences(field string, there, want any) []difference {
	if reflect.DeepEqual(there, want) || isEmpty(there) && isEmpty(want) {
		return nil
	}
	a, b := children(there), children(want)
	if a == nil || b == nil || unnamed(there) && unnamed(want) && len(a) != len(b) {
		return []difference{{field, there, want}}
	}
	for key, value := range a {
		expected, isDefault := apiDefaults[strings.TrimPrefix(key, ".")]
		if _, ok := b[key]; !ok && !(isDefault && (expected == nil || expected == value)) {
			b[key] = nil
		}
	}
	var all []difference
	for _, key := range slices.Sorted(maps.Keys(b)) {
		all = append(all, differences(strings.TrimPrefix(field+key, "."), a[key], b[key])...)
	}
	return all
}

// isEmpty reports whether a value is equivalent to an absent one.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil
}

// unnamed reports whether a value is a list whose items have no names.
func unnamed(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(item any) bool { return nameOf(item) != "" })
}

func nameOf(item any) string {
	object, _ := item.(map[string]any)
	name, _ := object["name"].(string)
	return name
}

// children returns the fields or items of a JSON value by the last segment of their paths. It returns nil for a
// scalar.
func children(v any) map[string]any {
	all := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		for key, part := range v {
			all["."+key] = part
		}
	case []any:
		for i, part := range v {
			key := nameOf(part)
			if key == "" {
				key = strconv.Itoa(i)
			}
			all["["+key+"]"] = part
		}
	default:
		return nil
	}
	return all
}

// entryPath splits the path of a field of a webhook configuration.
var entryPath = regexp.MustCompile(`^webhooks\[([^\]]+)\]\.?(.*)$`)

// String names the entry and the field, and both values.
func (d difference) String() string {
	subject, field := "it", d.field
	if parts := entryPath.FindStringSubmatch(d.field); parts != nil {
		subject, field = "entry "+parts[1], parts[2]
	}
	there, want := shown(d.is, d.want)
	switch {
	case field == "" && d.is == nil:
		return subject + " is missing"
	case field == "":
		return subject + " is not part of the chart: " + there
	case d.is == nil:
		return fmt.Sprintf("%s has no %s, and the chart renders %s", subject, field, want)
	case d.want == nil:
		return fmt.Sprintf("%s has %s %s, and the chart renders none", subject, field, there)
	}
	return fmt.Sprintf("%s has %s %s, and the chart renders %s", subject, field, there, want)
}

// maxShown bounds the shown part of a value, in characters.
const maxShown = 100

// shown returns two values as JSON, cut around the first difference.
func shown(a, b any) (string, string) {
	x, y := []rune(string(podschema.Encode(a))), []rune(string(podschema.Encode(b)))
	from := 0
	for len(x) > maxShown && from < min(len(x), len(y)) && x[from] == y[from] {
		from++
	}
	from = max(0, from-maxShown/4)
	cut := func(text []rune) string { return string(text[min(from, len(text)):min(from+maxShown, len(text))]) }
	return cut(x), cut(y)
}
