package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// readAll reads all fragments before any is merged: an item may stand before or
// after an item of a later template. It returns the fragments' nodes.
func readAll(ctx context.Context, fragments []Fragment, statusKey string, changes *Change) ([]*node, error) {
	given := map[string]bool{}
	nodes := make([]*node, len(fragments))
	for i := range fragments {
		f := &fragments[i]
		if given[f.Template] {
			return nil, &FragmentError{Template: f.Template, Err: errors.New("it is given twice")}
		}
		given[f.Template] = true
		n, err := (reader{ctx: ctx, statusKey: statusKey, frag: f}).fragment(startOf(f, changes))
		if err != nil {
			return nil, err
		}
		nodes[i] = n
	}
	return nodes, nil
}

// reader reads one fragment. It refuses what cannot be merged into any pod, and notes where
// items want to stand.
type reader struct {
	ctx       context.Context
	statusKey string
	frag      *Fragment
}

func (r reader) fragment(start *place) (*node, error) {
	f := r.frag
	if !slices.Contains([]string{Deny, KeepPod, Overwrite}, start.onConflict) {
		return nil, &FragmentError{Template: f.Template, Err: fmt.Errorf("onConflict %q, allowed are Deny, KeepPod and Overwrite", f.OnConflict)}
	}
	for _, name := range fieldsOf(f.Object) {
		if name != "metadata" && name != "spec" {
			return nil, f.fault(start.field(name), "only metadata and spec can be injected")
		}
	}
	if err := r.checkMetadata(objectOf(f.Object["metadata"]), start.field("metadata")); err != nil {
		return nil, err
	}
	at := start.field("spec")
	if objectOf(f.Object["spec"])["ephemeralContainers"] != nil {
		return nil, f.fault(at.field("ephemeralContainers"), "ephemeral containers cannot be injected")
	}
	n, err := r.read(podschema.Pod(), f.Object, where{at: start})
	if err != nil {
		return nil, err
	}
	spec := n.field("spec")
	if alias, name := spec.field("serviceAccount"), spec.field("serviceAccountName"); alias != nil && name != nil && alias.value != name.value {
		return nil, f.fault(at.field("serviceAccount"), "it is the old name of serviceAccountName, and %s is not %s", podschema.Show(alias.value), podschema.Show(name.value))
	}
	return n, r.checkExtensions(spec, at)
}

// checkExtensions refuses to extend a container in both lists, since an item extends the
// container of its name wherever that stands.
func (r reader) checkExtensions(spec *node, at *place) error {
	app, init := spec.field("containers"), spec.field("initContainers")
	if app == nil || init == nil {
		return nil
	}
	extended := map[string]bool{}
	for _, it := range app.items {
		if !isSidecar(it) {
			extended[it.key] = true
		}
	}
	for _, it := range init.items {
		if !isSidecar(it) && extended[it.key] {
			return r.frag.fault(at.field("initContainers").field(it.key), "it has no image, and containers has such an item, too; write one: it extends the container of its name wherever that stands")
		}
	}
	return nil
}

func (r reader) checkMetadata(metadata map[string]any, at *place) error {
	for _, name := range fieldsOf(metadata) {
		if name != "labels" && name != "annotations" {
			return r.frag.fault(at.field(name), "only labels and annotations can be injected into metadata")
		}
	}
	annotations := objectOf(metadata["annotations"])
	here := at.field("annotations").field(r.statusKey)
	if annotations[r.statusKey] != nil {
		return r.frag.fault(here, "the status annotation is reserved")
	}
	if slices.Contains(directive.Of(annotations).Unset, r.statusKey) {
		return r.frag.fault(here, "the status annotation cannot be taken away")
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

// read reads a value of type t. It checks shapes against the schema, and directives.
func (r reader) read(t *podschema.Type, v any, w where) (*node, error) {
	switch v := v.(type) {
	case map[string]any:
		if isScalar(t) && !w.item && hasDirective(v) {
			return r.readDirected(v, w)
		}
		if t != nil && t.Kind() != podschema.Struct && t.Kind() != podschema.Map {
			return nil, r.frag.fault(w.at, "%s is expected, not an object", article(t.Kind()))
		}
		return r.readObject(t, v, w)
	case []any:
		if t != nil && t.Kind() != podschema.List {
			return nil, r.frag.fault(w.at, "%s is expected, not a list", article(t.Kind()))
		}
		return r.readList(t, v, w)
	default:
		if t != nil && t.Kind() != podschema.Scalar && v != nil {
			return nil, r.frag.fault(w.at, "%s is expected, not %s", article(t.Kind()), podschema.Show(v))
		}
		return scalarNode(v, directive.Directives{}), nil
	}
}

// readDirected reads an object with directives in the place of a scalar.
func (r reader) readDirected(v map[string]any, w where) (*node, error) {
	says, err := r.directives(v, directive.Where{Path: w.at.path(), Scalar: true, Inside: w.inside || w.inItem}, w.at)
	if err != nil {
		return nil, err
	}
	value := directive.Value(v)
	switch value.(type) {
	case map[string]any, []any:
		return nil, r.frag.fault(w.at, "a scalar is expected as its value, not %s", podschema.Show(value))
	}
	n := scalarNode(value, says)
	n.same = false
	return n, nil
}

// directives reads and checks the directives of an object.
func (r reader) directives(v map[string]any, w directive.Where, at *place) (directive.Directives, error) {
	if problems := directive.Check(v, w); len(problems) > 0 {
		return directive.Directives{}, r.frag.fault(at, "%w", problems[0])
	}
	says := directive.Of(v)
	if says.Join == nil && directive.Joins(v) {
		return says, r.frag.fault(at, "%s wants text as its value, not %s", directive.JoinKey(v), podschema.Show(directive.Value(v)))
	}
	return says, nil
}

// isScalar reports whether t is known to be one scalar.
func isScalar(t *podschema.Type) bool { return t != nil && t.Kind() == podschema.Scalar }

func article(k podschema.Kind) string {
	if k == podschema.Struct {
		return "an " + k.String()
	}
	return "a " + k.String()
}

func (r reader) readObject(t *podschema.Type, v map[string]any, w where) (*node, error) {
	whole := t.IsWhole()
	var says directive.Directives
	if hasDirective(v) {
		var err error
		says, err = r.directives(v, directive.Where{Path: w.at.path(), Item: w.item, Keyed: w.keyed, Gathered: w.gathered, Whole: whole, Inside: w.inside}, w.at)
		if err != nil {
			return nil, err
		}
	}
	names := fieldsOf(v)
	fields := make(map[string]*node, len(names))
	for _, name := range names {
		field, err := r.read(t.Child(name), v[name], where{at: w.at.field(name), inside: w.inside || whole, inItem: w.gathered})
		if err != nil {
			return nil, err
		}
		fields[name] = field
	}
	chosen := ""
	for _, name := range t.Unions() {
		if f := fields[name]; f == nil || !f.adds {
			continue
		}
		if chosen != "" {
			return nil, r.frag.fault(w.at, "it has both %s and %s, and only one of them can be set", chosen, name)
		}
		chosen = name
	}
	return objectNode(t, v, says, fields, names), nil
}

func (r reader) readList(t *podschema.Type, v []any, w where) (*node, error) {
	var elem *podschema.Type
	if t != nil {
		elem = t.Elem()
	}
	id, known := t.Identity()
	keyed := known && len(t.Keys()) > 0
	all := make([]*node, len(v))
	joins := map[string]bool{} // by key: whether the last item of the key joins a text
	for i, item := range v {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		here := where{at: w.at.field(strconv.Itoa(i)), item: true, keyed: keyed, gathered: known && !keyed, inside: w.inside || !known}
		marker := known && directive.Of(item).Marker
		if known && !marker {
			key, ok := id.Key(item)
			if !ok {
				return nil, r.frag.fault(w.at, "item %d has no key that names it", i)
			}
			here.at = w.at.field(key)
			before, twice := joins[key]
			if joins[key] = directive.Joins(item); twice && !id.Set() && !(before && joins[key]) {
				return nil, r.frag.fault(here.at, "there are two items of this key")
			}
		}
		n, err := r.read(elem, item, here)
		if err != nil {
			return nil, err
		}
		if all[i] = n; known && !marker {
			if err := r.notePosition(id, w.at, here.at.segment, n); err != nil {
				return nil, r.frag.fault(here.at, "%w", err)
			}
		}
	}
	if known {
		return keyedListNode(id, v, all), nil
	}
	return listNode(v, all), nil
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
	for name := range object {
		if directive.Is(name) {
			return true
		}
	}
	return false
}
