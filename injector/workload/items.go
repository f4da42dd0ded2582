package workload

import "strings"

// Items returns the items of a list, and of lists in it, or the object itself. An item that is no
// object is nil.
func Items(object map[string]any) []map[string]any {
	items, ok := object["items"].([]any)
	if kind, _ := object["kind"].(string); !ok || !strings.HasSuffix(kind, "List") {
		return []map[string]any{object}
	}
	var all []map[string]any
	for _, item := range items {
		object, _ := item.(map[string]any)
		all = append(all, Items(object)...)
	}
	return all
}
