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

// difference is a field of an object that is not as the chart renders it.
type difference struct {
	// field is a path such as webhooks[enforced.pillion.dev].rules[0].scope.
	field       string
	there, want any
}

// apiDefaults are the values of fields that API servers set where the chart renders none. Nil stands
// for any value.
var apiDefaults = map[string]any{
	"matchPolicy": "Equivalent", "failurePolicy": "Fail", "reinvocationPolicy": "Never", "scope": "*", "timeoutSeconds": 10.0, "port": 443.0,
	"type": "ClusterIP", "protocol": "TCP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
	"clusterIP": nil, "clusterIPs": nil, "ipFamilies": nil, "ipFamilyPolicy": nil,
}

// differences returns the deepest fields that differ. Items of lists are found by their names; items
// without one by their places, where as many are there as there should be.
func differences(field string, there, want any) []difference {
	if reflect.DeepEqual(there, want) || isEmpty(there) && isEmpty(want) {
		return nil
	}
	a, b := parts(there), parts(want)
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

// isEmpty reports whether a value says no more than its absence.
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

// parts returns the parts of a value of JSON, by the end of their fields' names; nil if it has none.
func parts(v any) map[string]any {
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

// ofEntry splits the path of a field of a webhook configuration.
var ofEntry = regexp.MustCompile(`^webhooks\[([^\]]+)\]\.?(.*)$`)

// String names the entry and the field, and both values.
func (d difference) String() string {
	subject, field := "it", d.field
	if parts := ofEntry.FindStringSubmatch(d.field); parts != nil {
		subject, field = "entry "+parts[1], parts[2]
	}
	there, want := shown(d.there, d.want)
	switch {
	case field == "" && d.there == nil:
		return subject + " is missing"
	case field == "":
		return subject + " is not part of the chart: " + there
	case d.there == nil:
		return fmt.Sprintf("%s has no %s, and the chart renders %s", subject, field, want)
	case d.want == nil:
		return fmt.Sprintf("%s has %s %s, and the chart renders none", subject, field, there)
	}
	return fmt.Sprintf("%s has %s %s, and the chart renders %s", subject, field, there, want)
}

// mostShown is how many characters of a value are shown.
const mostShown = 100

// shown returns two values as JSON, from shortly before the first difference on, and cut.
func shown(a, b any) (string, string) {
	x, y := []rune(string(podschema.Encode(a))), []rune(string(podschema.Encode(b)))
	from := 0
	for len(x) > mostShown && from < min(len(x), len(y)) && x[from] == y[from] {
		from++
	}
	from = max(0, from-mostShown/4)
	cut := func(text []rune) string { return string(text[min(from, len(text)):min(from+mostShown, len(text))]) }
	return cut(x), cut(y)
}
