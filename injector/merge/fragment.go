package merge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/podschema"
)

const (
	onConflictKey = "$onConflict"
	positionKey   = "$position"

	first = "First"
	last  = "Last"
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
	if spec, ok := f.Object["spec"].(map[string]any); ok && spec["ephemeralContainers"] != nil {
		return m.fragmentError(start.field("spec").field("ephemeralContainers"), "ephemeral containers cannot be injected")
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
	for name, value := range v {
		if err := checkDirective(name, value, item); err != nil {
			return m.fragmentError(at, "%w", err)
		}
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
		if err := m.checkValue(elem, item, at.item(key, i), true); err != nil {
			return err
		}
	}
	return nil
}

func checkDirective(name string, value any, item bool) error {
	switch {
	case !strings.HasPrefix(name, "$"):
		return nil
	case name == onConflictKey:
		if value == Deny || value == KeepPod || value == Overwrite {
			return nil
		}
		return fmt.Errorf("%s is %s, allowed are Deny, KeepPod and Overwrite", name, show(value))
	case name == positionKey && item:
		if value == first || value == last {
			return nil
		}
		return fmt.Errorf("%s is %s, allowed are First and Last", name, show(value))
	case name == positionKey:
		return fmt.Errorf("%s is for items of lists", name)
	default:
		return fmt.Errorf("the directive %s is not known", name)
	}
}

// clean returns v without directives and nulls, its lists in the order that
// $position asks for. It shares nothing that has to be changed with v.
func (m *merger) clean(t *podschema.Type, v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for _, name := range fieldsOf(v) {
			c[name] = m.clean(child(t, name), v[name])
		}
		return c
	case []any:
		return m.cleanList(t, v)
	default:
		return v
	}
}

func (m *merger) cleanList(t *podschema.Type, v []any) []any {
	id, keyed := m.identityOf(t)
	var elem *podschema.Type
	if t != nil && t.Kind() == podschema.List {
		elem = t.Elem()
	}
	var front, back []any
	seen := map[string]bool{}
	for _, item := range v {
		c := m.clean(elem, item)
		if key, ok := id.key(c); keyed && id.set() && ok {
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		if isFirst(item) {
			front = append(front, c)
		} else {
			back = append(back, c)
		}
	}
	return slices.Concat([]any{}, front, back)
}

func isFirst(item any) bool {
	object, _ := item.(map[string]any)
	return object[positionKey] == first
}
