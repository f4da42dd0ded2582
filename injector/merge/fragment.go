package merge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

const (
	onConflictKey = "$onConflict"
	positionKey   = "$position"
	patchKey      = "$patch"
	unsetKey      = "$unset"

	first  = "First"
	last   = "Last"
	before = "before"
	after  = "after"

	patchDelete  = "delete"
	patchReplace = "replace"
)

// checkFragment refuses what cannot be merged into any pod, before anything is.
func (m *merger) checkFragment(f *Fragment, start place) error {
	if m.merged[f.Template] {
		return &FragmentError{Template: f.Template, Err: errors.New("it is given twice")}
	}
	m.merged[f.Template] = true
	if !slices.Contains([]string{Deny, KeepPod, Overwrite}, start.onConflict) {
		return &FragmentError{Template: f.Template, Err: fmt.Errorf("onConflict %q, allowed are Deny, KeepPod and Overwrite", f.OnConflict)}
	}
	for _, name := range fieldsOf(f.Object) {
		if name != "metadata" && name != "spec" {
			return m.fragmentError(start.field(name), "only metadata and spec can be injected")
		}
	}
	if err := m.checkMetadata(f.Object["metadata"], start.field("metadata")); err != nil {
		return err
	}
	spec := objectOf(f.Object["spec"])
	if spec["ephemeralContainers"] != nil {
		return m.fragmentError(start.field("spec").field("ephemeralContainers"), "ephemeral containers cannot be injected")
	}
	if alias, name := spec["serviceAccount"], spec["serviceAccountName"]; alias != nil && name != nil && alias != name {
		return m.fragmentError(start.field("spec").field("serviceAccount"), "it is the old name of serviceAccountName, and %s is not %s", show(alias), show(name))
	}
	return m.checkValue(m.pod, f.Object, start, false)
}

func (m *merger) checkMetadata(v any, at place) error {
	metadata, _ := v.(map[string]any)
	for _, name := range fieldsOf(metadata) {
		if name != "labels" && name != "annotations" {
			return m.fragmentError(at.field(name), "only labels and annotations can be injected into metadata")
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[m.options.StatusKey] != nil {
		return m.fragmentError(at.field("annotations").field(m.options.StatusKey), "the status annotation is reserved")
	}
	return nil
}

// checkValue checks shapes against the schema, and directives.
func (m *merger) checkValue(t *podschema.Type, v any, at place, item bool) error {
	switch v := v.(type) {
	case map[string]any:
		if t != nil && t.Kind() != podschema.Struct && t.Kind() != podschema.Map {
			return m.fragmentError(at, "%s is expected, not an object", article(t.Kind()))
		}
		return m.checkObject(t, v, at, item)
	case []any:
		if t != nil && t.Kind() != podschema.List {
			return m.fragmentError(at, "%s is expected, not a list", article(t.Kind()))
		}
		return m.checkList(t, v, at)
	default:
		if t != nil && t.Kind() != podschema.Scalar && v != nil {
			return m.fragmentError(at, "%s is expected, not %s", article(t.Kind()), show(v))
		}
		return nil
	}
}

func article(k podschema.Kind) string {
	if k == podschema.Struct {
		return "an " + k.String()
	}
	return "a " + k.String()
}

func (m *merger) checkObject(t *podschema.Type, v map[string]any, at place, item bool) error {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if err := checkDirective(name, v[name], item); err != nil {
			return m.fragmentError(at, "%w", err)
		}
	}
	if err := m.checkRemovals(t, v, at); err != nil {
		return err
	}
	chosen := ""
	for _, name := range m.unions[t] {
		if !m.adds(child(t, name), v[name]) {
			continue
		}
		if chosen != "" {
			return m.fragmentError(at, "it has both %s and %s, and only one of them can be set", chosen, name)
		}
		chosen = name
	}
	for _, name := range fieldsOf(v) {
		if err := m.checkValue(child(t, name), v[name], at.field(name), false); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) checkList(t *podschema.Type, v []any, at place) error {
	var elem *podschema.Type
	if t != nil {
		elem = t.Elem()
	}
	id, keyed := m.identityOf(t)
	seen := map[string]bool{}
	for i, item := range v {
		key := strconv.Itoa(i)
		if keyed && isMarker(item) {
			continue
		}
		if err := m.checkItem(id, keyed && !id.set(), item, at.item(key, i)); err != nil {
			return err
		}
		if keyed {
			name, ok := id.key(item)
			if !ok {
				return m.fragmentError(at, "item %d has no key that names it", i)
			}
			key = name
			if seen[key] && !id.set() {
				return m.fragmentError(at.item(key, i), "there are two items of this key")
			}
			seen[key] = true
		}
		here := at.item(key, i)
		if err := m.checkValue(elem, item, here, true); err != nil {
			return err
		}
		if err := m.notePosition(id, at.keyed, key, item); err != nil {
			return m.fragmentError(here, "%w", err)
		}
	}
	return nil
}

func checkDirective(name string, value any, item bool) error {
	allowed := ""
	switch {
	case !strings.HasPrefix(name, "$"):
		return nil
	case name == onConflictKey:
		if value == Deny || value == KeepPod || value == Overwrite {
			return nil
		}
		allowed = "Deny, KeepPod and Overwrite"
	case name == positionKey && item:
		if value == first || value == last || isNeighbour(value) {
			return nil
		}
		allowed = "First, Last, {before: NAME} and {after: NAME}"
	case name == positionKey:
		return fmt.Errorf("%s is for items of lists", name)
	case name == patchKey:
		if value == patchDelete || value == patchReplace {
			return nil
		}
		allowed = "delete and replace"
	case name == unsetKey:
		if _, ok := unsetNames(value); ok {
			return nil
		}
		allowed = "lists of fields"
	default:
		return fmt.Errorf("the directive %s is not known", name)
	}
	return fmt.Errorf("%s is %s, allowed are %s", name, show(value), allowed)
}

// isNeighbour tells {before: NAME} and {after: NAME}.
func isNeighbour(v any) bool {
	position, _ := v.(map[string]any)
	for side, name := range position {
		text, ok := name.(string)
		if len(position) != 1 || side != before && side != after || !ok || text == "" {
			return false
		}
	}
	return len(position) == 1
}

// checkItem refuses directives that need a key to tell which item is meant.
func (m *merger) checkItem(id identity, keyed bool, item any, at place) error {
	object, _ := item.(map[string]any)
	if _, ok := object[positionKey].(map[string]any); ok && !keyed {
		return m.fragmentError(at, "%s with a neighbour is for lists whose items have keys", positionKey)
	}
	if object[patchKey] != nil && !keyed {
		return m.fragmentError(at, "%s is for items of lists that have keys", patchKey)
	}
	if id.elem == m.container && isReplace(item) && object["image"] == nil {
		return m.fragmentError(at, "it replaces the pod's container and has no image")
	}
	return nil
}

// checkRemovals refuses directives that would take away what nobody may, and
// fields that are both set and taken away.
func (m *merger) checkRemovals(t *podschema.Type, v map[string]any, at place) error {
	names, _ := unsetNames(v[unsetKey])
	if len(names) > 0 && m.values[t] {
		return m.fragmentError(at, "%s has no meaning in what is one value; write the whole of it with %s: replace", unsetKey, patchKey)
	}
	for _, name := range names {
		if v[name] != nil {
			return m.fragmentError(at.field(name), "it is set and in %s", unsetKey)
		}
		if m.pinned(at.field(name)) {
			return m.fragmentError(at.field(name), "it cannot be taken away")
		}
	}
	if v[patchKey] != nil && (m.pinned(at) || at.keyed == "") {
		return m.fragmentError(at, "%s: %s would take away what no template may", patchKey, v[patchKey])
	}
	return nil
}

// pinned tells what a pod cannot lose.
func (m *merger) pinned(at place) bool {
	switch at.keyed {
	case "/metadata", "/metadata/annotations", "/spec", "/spec/containers", join("/metadata/annotations", m.options.StatusKey):
		return true
	}
	return false
}

// clean returns v without directives and nulls, its lists in the order that
// $position asks for. It shares nothing that has to be changed with v.
func (m *merger) clean(t *podschema.Type, v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for _, name := range fieldsOf(v) {
			if !isDelete(v[name]) {
				c[name] = m.clean(child(t, name), v[name])
			}
		}
		return c
	case []any:
		return m.cleanList(t, v)
	default:
		return v
	}
}

func isFirst(item any) bool {
	object, _ := item.(map[string]any)
	return object[positionKey] == first
}
