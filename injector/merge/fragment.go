package merge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/facts"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// checkAll checks all fragments before any is merged: an item may stand before or
// after an item of a later template.
func checkAll(ctx context.Context, fragments []Fragment, statusKey string, changes *Change) error {
	given := map[string]bool{}
	for i := range fragments {
		f := &fragments[i]
		if given[f.Template] {
			return &FragmentError{Template: f.Template, Err: errors.New("it is given twice")}
		}
		given[f.Template] = true
		if err := (checker{ctx: ctx, statusKey: statusKey, frag: f, positions: new(int)}).check(startOf(f, changes)); err != nil {
			return err
		}
	}
	return nil
}

// checker refuses fragments that cannot be merged into any pod, and notes where
// items want to stand.
type checker struct {
	ctx       context.Context
	statusKey string
	frag      *Fragment
	// positions counts the items that want to stand somewhere.
	positions *int
}

// sound is known of a value that never changes if nothing is wrong with it, and no item in it
// wants to stand somewhere.
var sound = facts.NewQuestion[bool]()

func (c checker) check(start *place) error {
	f := c.frag
	if !slices.Contains([]string{Deny, KeepPod, Overwrite}, start.onConflict) {
		return &FragmentError{Template: f.Template, Err: fmt.Errorf("onConflict %q, allowed are Deny, KeepPod and Overwrite", f.OnConflict)}
	}
	for _, name := range fieldsOf(f.Object) {
		if name != "metadata" && name != "spec" {
			return c.frag.fault(start.field(name), "only metadata and spec can be injected")
		}
	}
	if err := c.checkMetadata(f.Object["metadata"], start.field("metadata")); err != nil {
		return err
	}
	spec := objectOf(f.Object["spec"])
	if spec["ephemeralContainers"] != nil {
		return c.frag.fault(start.field("spec").field("ephemeralContainers"), "ephemeral containers cannot be injected")
	}
	if alias, name := plain(spec["serviceAccount"]), plain(spec["serviceAccountName"]); alias != nil && name != nil && alias != name {
		return c.frag.fault(start.field("spec").field("serviceAccount"), "it is the old name of serviceAccountName, and %s is not %s", podschema.Show(alias), podschema.Show(name))
	}
	if err := c.checkValue(podschema.Pod(), f.Object, where{at: start}); err != nil {
		return err
	}
	return c.checkExtensions(spec, start.field("spec"))
}

// checkExtensions refuses to extend a container in both lists, since an item extends the
// container of its name wherever that stands.
func (c checker) checkExtensions(spec map[string]any, at *place) error {
	app, _ := spec["containers"].([]any)
	init, _ := spec["initContainers"].([]any)
	if len(app) == 0 || len(init) == 0 {
		return nil
	}
	extended := map[string]bool{}
	extends := func(item any) (string, bool) {
		container := objectOf(item)
		name, ok := container["name"].(string)
		return name, ok && container["image"] == nil && !directive.IsDelete(item)
	}
	for _, item := range app {
		if name, ok := extends(item); ok {
			extended[name] = true
		}
	}
	for _, item := range init {
		if name, ok := extends(item); ok && extended[name] {
			return c.frag.fault(at.field("initContainers").field("name="+name), "it has no image, and containers has such an item, too; write one: it extends the container of its name wherever that stands")
		}
	}
	return nil
}

func (c checker) checkMetadata(v any, at *place) error {
	metadata, _ := v.(map[string]any)
	for _, name := range fieldsOf(metadata) {
		if name != "labels" && name != "annotations" {
			return c.frag.fault(at.field(name), "only labels and annotations can be injected into metadata")
		}
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	here := at.field("annotations").field(c.statusKey)
	if annotations[c.statusKey] != nil {
		return c.frag.fault(here, "the status annotation is reserved")
	}
	if slices.Contains(directive.UnsetFields(annotations), c.statusKey) {
		return c.frag.fault(here, "the status annotation cannot be taken away")
	}
	return nil
}

// where is where a value of a fragment stands, for the grammar of directives.
type where struct {
	at                            *place
	item, keyed, gathered, inside bool
	// inItem is set for a field of an item that no name tells from others.
	inItem bool
}

// checkValue checks shapes against the schema, and directives.
func (c checker) checkValue(t *podschema.Type, v any, w where) error {
	f := c.frag.Facts.Of(v)
	if _, known := sound.Known(f); known {
		return nil
	}
	positions := *c.positions
	err := c.checkFresh(t, v, w)
	if err == nil && *c.positions == positions {
		sound.Answer(f, func() bool { return true })
	}
	return err
}

func (c checker) checkFresh(t *podschema.Type, v any, w where) error {
	switch v := v.(type) {
	case map[string]any:
		if isScalar(t) && !w.item && hasDirective(v) {
			return c.checkDirected(v, w)
		}
		if t != nil && t.Kind() != podschema.Struct && t.Kind() != podschema.Map {
			return c.frag.fault(w.at, "%s is expected, not an object", article(t.Kind()))
		}
		return c.checkObject(t, v, w)
	case []any:
		if t != nil && t.Kind() != podschema.List {
			return c.frag.fault(w.at, "%s is expected, not a list", article(t.Kind()))
		}
		return c.checkList(t, v, w)
	default:
		if t != nil && t.Kind() != podschema.Scalar && v != nil {
			return c.frag.fault(w.at, "%s is expected, not %s", article(t.Kind()), podschema.Show(v))
		}
		return nil
	}
}

// checkDirected checks an object with directives in the place of a scalar.
func (c checker) checkDirected(v map[string]any, w where) error {
	problems := directive.Check(v, directive.Where{Path: w.at.path(), Scalar: true, Inside: w.inside || w.inItem})
	if len(problems) > 0 {
		return c.frag.fault(w.at, "%w", problems[0])
	}
	switch value := directive.Value(v).(type) {
	case map[string]any, []any:
		return c.frag.fault(w.at, "a scalar is expected as its value, not %s", podschema.Show(value))
	}
	return c.checkAppend(v, w)
}

// checkAppend checks what is appended, if anything is.
func (c checker) checkAppend(v map[string]any, w where) error {
	if _, _, ok := directive.AppendOf(v); directive.Appends(v) && !ok {
		return c.frag.fault(w.at, "$append wants text as its value, not %s", podschema.Show(directive.Value(v)))
	}
	return nil
}

// isScalar reports whether t is known to be one scalar.
func isScalar(t *podschema.Type) bool { return t != nil && t.Kind() == podschema.Scalar }

// plain returns a scalar of a fragment without the directives in its place.
func plain(v any) any {
	if directed, ok := v.(map[string]any); ok {
		return directive.Value(directed)
	}
	return v
}

func article(k podschema.Kind) string {
	if k == podschema.Struct {
		return "an " + k.String()
	}
	return "a " + k.String()
}

func (c checker) checkObject(t *podschema.Type, v map[string]any, w where) error {
	whole := t.IsWhole()
	if hasDirective(v) {
		problems := directive.Check(v, directive.Where{Path: w.at.path(), Item: w.item, Keyed: w.keyed, Gathered: w.gathered, Whole: whole, Inside: w.inside})
		if len(problems) > 0 {
			return c.frag.fault(w.at, "%w", problems[0])
		}
		if err := c.checkAppend(v, w); err != nil {
			return err
		}
	}
	chosen := ""
	for _, name := range t.Unions() {
		if !adds(t.Child(name), v[name]) {
			continue
		}
		if chosen != "" {
			return c.frag.fault(w.at, "it has both %s and %s, and only one of them can be set", chosen, name)
		}
		chosen = name
	}
	for _, name := range fieldsOf(v) {
		if err := c.checkValue(t.Child(name), v[name], where{at: w.at.field(name), inside: w.inside || whole, inItem: w.gathered}); err != nil {
			return err
		}
	}
	return nil
}

func (c checker) checkList(t *podschema.Type, v []any, w where) error {
	var elem *podschema.Type
	if t != nil {
		elem = t.Elem()
	}
	id, known := t.Identity()
	keyed := known && len(t.Keys()) > 0
	seen := map[string]bool{}
	for i, item := range v {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		here := where{at: w.at.field(strconv.Itoa(i)), item: true, keyed: keyed, gathered: known && !keyed, inside: w.inside || !known}
		if directive.IsMarker(item) && known {
			if err := c.checkValue(elem, item, here); err != nil {
				return err
			}
			continue
		}
		if known {
			key, ok := id.Key(item)
			if !ok {
				return c.frag.fault(w.at, "item %d has no key that names it", i)
			}
			here.at = w.at.field(key)
			appends, twice := seen[key]
			if twice && !id.Set() && !(appends && directive.Appends(item)) {
				return c.frag.fault(here.at, "there are two items of this key")
			}
			seen[key] = directive.Appends(item)
		}
		if err := c.checkValue(elem, item, here); err != nil {
			return err
		}
		if known {
			if objectOf(item)[directive.Position] != nil {
				*c.positions++
			}
			if err := c.notePosition(id, w.at, here.at.segment, item); err != nil {
				return c.frag.fault(here.at, "%w", err)
			}
		}
	}
	return nil
}

// fieldsOf returns the fields that a fragment's object sets, in order, without
// its directives and without nulls, which set nothing.
func fieldsOf(frag map[string]any) []string {
	names := make([]string, 0, len(frag))
	for name, v := range frag {
		if v != nil && !directive.Is(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func hasDirective(object map[string]any) bool {
	for name := range maps.Keys(object) {
		if strings.HasPrefix(name, "$") {
			return true
		}
	}
	return false
}

// removals returns the fields that a fragment's object takes away, in order.
func removals(frag map[string]any) []string {
	names := slices.Clone(directive.UnsetFields(frag))
	for name, v := range frag {
		if directive.IsDelete(v) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// adds reports whether merging v into nothing puts anything there.
func adds(t *podschema.Type, v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case map[string]any:
		if isScalar(t) {
			return !appendsNothing(v) && directive.Value(v) != nil
		}
		names := fieldsOf(v)
		if directive.IsDelete(v) {
			return false
		}
		if len(names) == 0 || t.IsWhole() {
			return v[directive.Unset] == nil
		}
		return slices.ContainsFunc(names, func(name string) bool { return adds(t.Child(name), v[name]) })
	case []any:
		return t.IsValue() || slices.ContainsFunc(v, func(item any) bool {
			return !directive.IsDelete(item) && !directive.IsMarker(item) && !appendsNothing(item)
		})
	default:
		return true
	}
}

// blank reports whether merging v could not change anything: rendering leaves
// empty maps and lists behind where conditions were false.
func blank(t *podschema.Type, v any) bool {
	if v == nil {
		return true
	}
	if t.IsOneAddition() {
		return false
	}
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		if v[directive.Unset] != nil || v[directive.Patch] != nil {
			return false
		}
		for name, value := range v {
			if !directive.Is(name) && !blank(t.Child(name), value) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// cleaned are values that never change, cleaned.
var cleaned = facts.NewQuestion[any]()

// clean returns v without directives and nulls, its lists in the order that
// $position asks for. It shares nothing that has to be changed with v.
func (f *Fragment) clean(t *podschema.Type, v any) any {
	fact := f.Facts.Of(v)
	if fact == nil {
		return f.cleanFresh(t, v)
	}
	return cleaned.Answer(fact, func() any {
		c := f.cleanFresh(t, v)
		if unchanged(c, v) {
			return v
		}
		f.Facts.Keep(c)
		return c
	})
}

// unchanged reports whether two objects or lists have the same in them: the very same objects
// and lists, and equal texts and numbers.
func unchanged(c, v any) bool {
	switch c := c.(type) {
	case map[string]any:
		v, ok := v.(map[string]any)
		return ok && maps.EqualFunc(c, v, isSame)
	case []any:
		v, ok := v.([]any)
		return ok && slices.EqualFunc(c, v, isSame)
	default:
		return false
	}
}

func isSame(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	default:
		return a == b
	}
}

func (f *Fragment) cleanFresh(t *podschema.Type, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if isScalar(t) {
			return directive.Value(v)
		}
		c := make(map[string]any, len(v))
		for name, value := range v {
			if value != nil && !directive.Is(name) && !directive.IsDelete(value) && !appendsNothing(value) {
				c[name] = f.clean(t.Child(name), value)
			}
		}
		return c
	case []any:
		return f.cleanList(t, v)
	default:
		return v
	}
}

// cleanList returns a list of a fragment without directives, in the order that
// they ask for.
func (f *Fragment) cleanList(t *podschema.Type, v []any) []any {
	id, keyed := t.Identity()
	var elem *podschema.Type
	if t != nil && t.Kind() == podschema.List {
		elem = t.Elem()
	}
	items := make([]listItem, 0, len(v))
	seen := map[string]int{}
	for _, item := range v {
		if directive.IsDelete(item) || directive.IsMarker(item) || appendsNothing(item) {
			continue
		}
		it := listItem{value: f.clean(elem, item), first: isFirst(item)}
		if keyed {
			if key, ok := id.Key(it.value); ok {
				at, twice := seen[key]
				if twice && directive.Appends(item) {
					appendAlso(items, at, item)
				}
				if twice && (id.Set() || directive.Appends(item)) {
					continue
				}
				it.key, seen[key] = key, len(items)
			}
			if p, ok := suffixOf(item); ok {
				it.appends = []suffix{p}
			}
		}
		items = append(items, it)
	}
	joinAppends(items)
	var o *order
	if keyed {
		o = localOrder(id, v)
	}
	arranged, _ := o.arrange(id, items)
	return arranged
}

func isFirst(item any) bool { return directive.PositionOf(item).Kind == directive.First }
