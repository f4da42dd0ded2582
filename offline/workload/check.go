package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// objectLists are the lists of a pod's spec that injection reads item by item.
var objectLists = []string{"initContainers", "containers", "ephemeralContainers", "volumes"}

// CheckPod refuses a pod, or a pod template, that the API server would refuse and that the
// injection would read wrongly: metadata that [CheckMetadata] refuses, a spec that is no
// object, and lists with items that are no objects. The error names the place.
func CheckPod(pod map[string]any) error { return checkPod(pod, "") }

// checkPod checks a pod. At is its place in the document, such as "spec.template."; errors
// begin with it.
func checkPod(pod map[string]any, at string) error {
	if err := checkMetadata(pod, at); err != nil {
		return err
	}
	if pod["spec"] == nil {
		return nil
	}
	spec, ok := pod["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("%sspec must be an object; got %s", at, kindOf(pod["spec"]))
	}
	for _, list := range objectLists {
		if err := checkObjects(spec[list], at+"spec."+list); err != nil {
			return err
		}
	}
	return nil
}

// checkObjects refuses a value that is neither absent nor a list of objects.
func checkObjects(list any, at string) error {
	if list == nil {
		return nil
	}
	items, ok := list.([]any)
	if !ok {
		return fmt.Errorf("%s must be a list of objects; got %s", at, kindOf(list))
	}
	for i, item := range items {
		if _, ok := item.(map[string]any); !ok {
			return fmt.Errorf("%s[%d] must be an object; got %s", at, i, kindOf(item))
		}
	}
	return nil
}

// CheckMetadata refuses an object (a pod, a pod template, a namespace) whose annotations or
// labels are not all text, as the API server does: an opt-out without quotes is no opt-out.
func CheckMetadata(object map[string]any) error { return checkMetadata(object, "") }

func checkMetadata(object map[string]any, at string) error {
	meta, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"annotations", "labels"} {
		at := at + "metadata." + field
		if meta[field] == nil {
			continue
		}
		entries, ok := meta[field].(map[string]any)
		if !ok {
			return fmt.Errorf("%s must be an object of texts; got %s", at, kindOf(meta[field]))
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			switch value := entries[key].(type) {
			case string, nil:
			case bool, json.Number:
				return fmt.Errorf("%s[%q] must be text; got %s, %v: put it in quotes", at, key, kindOf(value), value)
			default:
				return fmt.Errorf("%s[%q] must be text; got %s", at, key, kindOf(value))
			}
		}
	}
	return nil
}

// kindOf names the kind of a JSON value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a string"
}
