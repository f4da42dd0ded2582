package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/memo"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// readAll reads all fragments before any is merged: an item may stand before or
// after an item of a later template. It returns the fragments' nodes.
func readAll(ctx context.Context, fragments []Fragment, statusKey string, changes *Change) ([]node, error) {
	given := map[string]bool{}
	nodes := make([]node, len(fragments))
	for i := range fragments {
		f := &fragments[i]
		if given[f.Template] {
			return nil, &FragmentError{Template: f.Template, Err: errors.New("it is given twice")}
		}
		given[f.Template] = true
		r := reader{ctx: ctx, statusKey: statusKey, frag: f, start: startOf(f, changes)}
		if err := r.fragment(&nodes[i]); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// reader reads one fragment. It refuses what cannot be merged into any pod, and notes where
// items want to stand.
type reader struct {
	ctx       context.Context
	statusKey string
	frag      *Fragment
	// start is the pod's place, and path leads from there to the value that is being read.
	start *place
	path  []string
	// within is set in a value that never changes: what is in it is read with it.
	within bool
}

func (r *reader) fragment(n *node) error {
	f := r.frag
	if !slices.Contains([]string{Deny, KeepPod, Overwrite}, r.start.onConflict) {
		return &FragmentError{Template: f.Template, Err: fmt.Errorf("onConflict %q, allowed are Deny, KeepPod and Overwrite", f.OnConflict)}
	}
	for _, name := range fieldsOf(f.Object) {
		if name != "metadata" && name != "spec" {
			return f.fault(r.start.field(name), "only metadata and spec can be injected")
		}
	}
	if err := r.checkMetadata(objectOf(f.Object["metadata"]), r.start.field("metadata")); err != nil {
		return err
	}
	at := r.start.field("spec")
	if objectOf(f.Object["spec"])["ephemeralContainers"] != nil {
		return f.fault(at.field("ephemeralContainers"), "ephemeral containers cannot be injected")
	}
	if err := r.read(n, podschema.Pod(), f.Object, where{}); err != nil {
		return err
	}
	if err := r.notePositions(n); err != nil {
		return err
	}
	spec := n.field("spec")
	if alias, name := spec.field("serviceAccount"), spec.field("serviceAccountName"); alias != nil && name != nil && alias.value != name.value {
		return f.fault(at.field("serviceAccount"), "it is the old name of serviceAccountName, and %s is not %s", podschema.Show(alias.value), podschema.Show(name.value))
	}
	return r.checkExtensions(spec, at)
}

// checkExtensions refuses to extend a container in both lists, since an item extends the
// container of its name wherever that stands.
func (r *reader) checkExtensions(spec *node, at *place) error {
	app, init := spec.field("containers"), spec.field("initContainers")
	if app == nil || init == nil {
		return nil
	}
	extended := map[string]bool{}
	for _, it := range app.list.items {
		if !isSidecar(it) {
			extended[it.key] = true
		}
	}
	for _, it := range init.list.items {
		if !isSidecar(it) && extended[it.key] {
			return r.frag.fault(at.field("initContainers").field(it.key), "it has no image, and containers has such an item, too; write one: it extends the container of its name in either list")
		}
	}
	return nil
}

func (r *reader) checkMetadata(metadata map[string]any, at *place) error {
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
	item, keyed, gathered, inside bool
	// inItem is set for a field of an item that no name tells from others.
	inItem bool
}

// at returns the place of the value that is being read.
func (r *reader) at() *place {
	at := r.start
	for _, segment := range r.path {
		at = at.field(segment)
	}
	return at
}

// fault is the error of the value that is being read.
func (r *reader) fault(format string, args ...any) error {
	return r.frag.fault(r.at(), format, args...)
}

// readIn is read for a value in the one that is being read.
func (r *reader) readIn(segment string, n *node, t *podschema.Type, v any, w where) error {
	r.path = append(r.path, segment)
	err := r.read(n, t, v, w)
	r.path = r.path[:len(r.path)-1]
	return err
}

// readBefore are the nodes of values that never change.
var readBefore = new(memo.Key[*node])

// read makes n the node of a value of type t. It checks shapes against the schema, and
// directives.
func (r *reader) read(n *node, t *podschema.Type, v any, w where) error {
	if r.within {
		return r.readFresh(n, t, v, w)
	}
	f := r.frag.shared().Of(v)
	if known, ok := readBefore.Known(f); ok {
		*n = *known
		return nil
	}
	r.within = f != nil
	err := r.readFresh(n, t, v, w)
	r.within = false
	if err == nil && f != nil {
		readBefore.Do(f, func() *node { c := *n; return &c })
	}
	return err
}

func (r *reader) readFresh(n *node, t *podschema.Type, v any, w where) error {
	switch v := v.(type) {
	case map[string]any:
		if isScalar(t) && !w.item && hasDirective(v) {
			return r.readDirected(n, v, w)
		}
		if t != nil && t.Kind() != podschema.Struct && t.Kind() != podschema.Map {
			return r.fault("%s is expected, not an object", article(t.Kind()))
		}
		return r.readObject(n, t, v, w)
	case []any:
		if t != nil && t.Kind() != podschema.List {
			return r.fault("%s is expected, not a list", article(t.Kind()))
		}
		return r.readList(n, t, v, w)
	default:
		if t != nil && t.Kind() != podschema.Scalar && v != nil {
			return r.fault("%s is expected, not %s", article(t.Kind()), podschema.Show(v))
		}
		n.setScalar(v, silent)
		return nil
	}
}

// readDirected reads an object with directives in the place of a scalar.
func (r *reader) readDirected(n *node, v map[string]any, w where) error {
	says, err := r.directives(v, directive.Where{Path: r.path, Scalar: true, Inside: w.inside || w.inItem})
	if err != nil {
		return err
	}
	value := directive.Value(v)
	switch value.(type) {
	case map[string]any, []any:
		return r.fault("a scalar is expected as its value, not %s", podschema.Show(value))
	}
	n.setScalar(value, says)
	return nil
}

// directives reads and checks the directives of an object.
func (r *reader) directives(v map[string]any, w directive.Where) (*directive.Directives, error) {
	if problems := directive.Check(v, w); len(problems) > 0 {
		return nil, r.fault("%w", problems[0])
	}
	says := directive.Of(v)
	if says.Join == nil && directive.Joins(v) {
		return nil, r.fault("%s needs text as its value, not %s", directive.JoinKey(v), podschema.Show(directive.Value(v)))
	}
	return &says, nil
}

// isScalar reports whether t is known to be one scalar.
func isScalar(t *podschema.Type) bool { return t != nil && t.Kind() == podschema.Scalar }

func article(k podschema.Kind) string {
	if k == podschema.Struct {
		return "an " + k.String()
	}
	return "a " + k.String()
}

func (r *reader) readObject(n *node, t *podschema.Type, v map[string]any, w where) error {
	whole, says := t.IsWhole(), silent
	if hasDirective(v) {
		var err error
		says, err = r.directives(v, directive.Where{Path: r.path, Item: w.item, Keyed: w.keyed, Gathered: w.gathered, Whole: whole, Inside: w.inside})
		if err != nil {
			return err
		}
	}
	names := fieldsOf(v)
	fields := make([]node, len(names))
	for i, name := range names {
		if err := r.readIn(name, &fields[i], t.Child(name), v[name], where{inside: w.inside || whole, inItem: w.gathered}); err != nil {
			return err
		}
	}
	n.setObject(t, v, says, names, fields)
	chosen := ""
	for _, name := range t.Unions() {
		if f := n.field(name); f == nil || !f.adds {
			continue
		}
		if chosen != "" {
			return r.fault("it has both %s and %s, and only one of them can be set", chosen, name)
		}
		chosen = name
	}
	return nil
}

func (r *reader) readList(n *node, t *podschema.Type, v []any, w where) error {
	id, known := t.Identity()
	if known {
		return r.readKeyedList(n, t, id, v, w)
	}
	var elem *podschema.Type
	if t != nil {
		elem = t.Elem()
	}
	items := make([]node, len(v))
	for i, item := range v {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := r.readIn(strconv.Itoa(i), &items[i], elem, item, where{item: true, inside: true}); err != nil {
			return err
		}
	}
	n.setList(v, items)
	return nil
}

// readKeyedList reads a list of type t whose items are told apart.
func (r *reader) readKeyedList(n *node, t *podschema.Type, id podschema.Identity, v []any, w where) error {
	keyed := len(t.Keys()) > 0
	here := where{item: true, keyed: keyed, gathered: !keyed, inside: w.inside}
	items := make([]node, len(v))
	all := newListReader(t, id, len(v))
	for i, item := range v {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		key, named := id.Key(item)
		segment := key
		marker := directive.Of(item).Marker
		switch {
		case marker:
			segment = strconv.Itoa(i)
		case !named:
			return r.fault("item %d has no key that names it", i)
		}
		if err := r.readIn(segment, &items[i], id.Elem, item, here); err != nil {
			return err
		}
		if marker {
			all.replaces = true
			continue
		}
		if !all.add(key, &items[i]) {
			return r.frag.fault(r.at().field(key), "there are two items of this key")
		}
	}
	n.setKeyedList(v, all)
	return nil
}

// notePositions notes where the items in a value want to stand.
func (r *reader) notePositions(n *node) error {
	if !n.placed {
		return nil
	}
	in := func(segment string, n *node) error {
		r.path = append(r.path, segment)
		err := r.notePositions(n)
		r.path = r.path[:len(r.path)-1]
		return err
	}
	if n.fields != nil {
		for i, name := range n.fields.names {
			if err := in(name, &n.fields.nodes[i]); err != nil {
				return err
			}
		}
	}
	if n.list == nil {
		return nil
	}
	id, _ := n.list.typ.Identity()
	for _, it := range n.list.items {
		r.notePosition(id, it)
		if err := in(it.key, it.node); err != nil {
			return err
		}
	}
	if o := r.at().find().listOrder(); o != nil {
		return r.checkCycles(o)
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
	for name := range object {
		if directive.Is(name) {
			return true
		}
	}
	return false
}
