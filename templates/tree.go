package templates

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// node is a part of a compiled fragment.
type node interface {
	// render returns the node's value for a pod; nil leaves it out. Its error is a
	// *expression.Error, or that of the run's context.
	render(r *renderer, s *expression.Scope) (any, error)
}

// constant is a part of the fragment without expressions.
type constant struct {
	at    *manifest.Path
	value any
}

// render returns a copy, so that pods share nothing.
func (c *constant) render(r *renderer, s *expression.Scope) (any, error) {
	return r.run.Copy(c.value, c.at)
}

// text is a text with expressions in it.
type text struct{ parts []textPart }

// textPart is a literal, or an expression if there is one.
type textPart struct {
	literal    string
	expression *expression.Expression
}

func (t *text) render(r *renderer, s *expression.Scope) (any, error) {
	return joinText(t.parts, s)
}

func joinText(parts []textPart, s *expression.Scope) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		if p.expression == nil {
			b.WriteString(p.literal)
			continue
		}
		joined, err := p.expression.Text(s)
		if err != nil {
			return "", err
		}
		b.WriteString(joined)
	}
	return b.String(), nil
}

// whole is an expression that is a value by itself.
type whole struct {
	expression *expression.Expression
	typ        *podschema.Type
	// item is set for an item of a list of scalars: a list that the expression gives stands
	// for its items.
	item bool
}

// spliced are values that stand in a list in the place of one item.
type spliced []any

func (w *whole) render(r *renderer, s *expression.Scope) (any, error) {
	v, err := w.expression.Value(s)
	if err != nil {
		return nil, err
	}
	if items, isList := v.([]any); isList && w.item {
		fitted, err := r.template.fitItems(items, w.typ)
		if err != nil {
			return nil, w.failure(err)
		}
		return spliced(fitted), nil
	}
	fitted, err := r.template.fit(v, w.typ)
	if err != nil {
		return nil, w.failure(err)
	}
	return fitted, nil
}

// failure says what is wrong with the expression's value, and which form works.
func (w *whole) failure(err error) error {
	message := err.Error()
	var wrong *misfit
	if errors.As(err, &wrong) && wrong.want != nil {
		message += w.expression.Form(wrong.value, wrong.want, len(wrong.in) > 0)
	}
	return &expression.Error{Place: w.expression.Place, Message: show.Plain(message)}
}

// mapping is an object with an expression somewhere in it, or with directives.
type mapping struct {
	expression.Place
	// scalar is set for a scalar with directives for the merge, {$onConflict: …, value: V}: the
	// value is the only entry. It renders to such an object.
	scalar    bool
	typ       *podschema.Type
	condition *expression.Expression
	entries   []entry
	// directives are for the merge: $position, $onConflict, $patch, $unset, $append.
	directives map[string]any
}

// entry is one key of a mapping: a literal, or a text if there is one.
type entry struct {
	key   string
	text  []textPart
	value node
}

func (m *mapping) render(r *renderer, s *expression.Scope) (any, error) {
	if m.condition != nil {
		if yes, err := m.condition.Condition(s); err != nil || !yes {
			return nil, err
		}
	}
	out := make(map[string]any, len(m.entries)+len(m.directives))
	for _, e := range m.entries {
		key, err := m.key(e, s, out)
		if err != nil {
			return nil, err
		}
		v, err := e.value.render(r, s)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if err := r.run.Spend(len(key)+4, m.At); err != nil {
			return nil, err
		}
		out[key] = v
	}
	if len(out) == 0 && m.isMap() && len(m.entries) > 0 {
		return nil, nil
	}
	maps.Copy(out, m.directives)
	if (m.scalar || directive.Joins(out)) && directive.Value(out) == nil {
		return nil, nil // an expression left the text out
	}
	return out, nil
}

func (m *mapping) isMap() bool { return m.typ != nil && m.typ.Kind() == podschema.Map }

func (m *mapping) key(e entry, s *expression.Scope, out map[string]any) (string, error) {
	key := e.key
	if e.text != nil {
		var err error
		if key, err = joinText(e.text, s); err != nil {
			return "", err
		}
	}
	wrong := ""
	switch _, twice := out[key]; {
	case key == "":
		wrong = "is empty"
	case directive.Is(key):
		wrong = "begins with $"
	case twice:
		wrong = "is there twice"
	default:
		return key, nil
	}
	return "", &expression.Error{Place: m.Place, Message: fmt.Sprintf("the key %s %s", show.Value(key), wrong)}
}

// sequence is a list with an expression somewhere in it, or with directives.
type sequence struct {
	at    *manifest.Path
	typ   *podschema.Type
	items []item
}

// item is an item of a sequence; at most one of loop and each is set.
type item struct {
	expression.Place
	loop *loop
	each each
	node node
}

// loop is $for: "NAME in EXPRESSION".
type loop struct {
	name string
	over *expression.Expression
}

// each says which containers of the base pod an item with $each extends.
type each string

// The values of $each.
const (
	eachApp  each = "App"
	eachInit each = "Init"
	eachAll  each = "All"
)

func (q *sequence) render(r *renderer, s *expression.Scope) (any, error) {
	out := listSoFar{items: make([]any, 0, len(q.items))}
	for i := range q.items {
		if err := q.renderItem(r, &q.items[i], s, &out); err != nil {
			return nil, err
		}
	}
	if len(out.items) == 0 {
		return nil, nil
	}
	return out.items, nil
}

// listSoFar has the items that a sequence has given so far, and their keys.
type listSoFar struct {
	items []any
	// keys has for each key whether all items of it join a text.
	keys map[string]bool
}

func (q *sequence) renderItem(r *renderer, it *item, s *expression.Scope, out *listSoFar) error {
	once := func(s *expression.Scope) error {
		v, err := it.node.render(r, s)
		if err != nil || v == nil {
			return err
		}
		return q.add(r, it, v, out)
	}
	switch {
	case it.loop != nil:
		return it.loop.over.Repeat(s, it.loop.name, it.Place, once)
	case it.each != "":
		return renderEach(r, it, s)
	}
	return once(s)
}

// add appends an item. In a list with keys the item must have the keys, and no other item
// may have the same, unless both join a text to one variable. The item {$patch: replace} alone has none: it speaks of the list.
func (q *sequence) add(r *renderer, it *item, v any, out *listSoFar) error {
	if m, ok := v.(map[string]any); ok && !directive.Of(v).Marker && q.typ != nil && len(q.typ.Keys()) > 0 {
		if err := q.checkKeys(m, out); err != "" {
			if port, ok := m["containerPort"]; ok {
				if advice := r.template.PortAdvice(fmt.Sprint(port), r.made.params.ByName); advice != "" {
					err += "; " + advice
				}
			}
			return &expression.Error{Place: it.Place, Message: err}
		}
	}
	if several, ok := v.(spliced); ok {
		out.items = append(out.items, several...)
		return nil
	}
	out.items = append(out.items, v)
	return nil
}

func (q *sequence) checkKeys(m map[string]any, out *listSoFar) string {
	for _, k := range q.typ.Keys() {
		if v := k.Value(m); v == nil || v == "" {
			return fmt.Sprintf("an item of this list needs %s", k.Name)
		}
	}
	key, _ := keyOf(q.typ, m)
	if joins, twice := out.keys[key]; twice && !(joins && directive.Joins(m)) {
		words := make([]string, len(q.typ.Keys()))
		for i, k := range q.typ.Keys() {
			words[i] = k.Name + " " + show.Value(fmt.Sprint(k.Value(m)))
		}
		return fmt.Sprintf("two items have the same %s", strings.Join(words, " and "))
	}
	if out.keys == nil {
		out.keys = map[string]bool{}
	}
	out.keys[key] = directive.Joins(m)
	return ""
}

// keyOf returns the key of an item of a list of type t. It is "" for an item without the fields of
// the key. Ok is false for a list without keys.
func keyOf(t *podschema.Type, item any) (key string, ok bool) {
	if t == nil || len(t.Keys()) == 0 {
		return "", false
	}
	key, _ = podschema.Identity{Keys: t.Keys()}.Key(item)
	return key, true
}

// renderEach extends containers of the base pod. The renderer keeps the items, because
// they go to two lists, and several may extend one container.
func renderEach(r *renderer, it *item, s *expression.Scope) error {
	for _, list := range containerLists {
		if it.each == eachApp && list != "containers" || it.each == eachInit && list != "initContainers" {
			continue
		}
		for _, c := range r.containers(list) {
			if err := r.run.Interrupted(); err != nil {
				return err
			}
			if name, _ := c["name"].(string); it.each != eachAll && r.template.foreign.Has(name) {
				continue
			}
			if err := extend(r, it, s, list, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func extend(r *renderer, it *item, s *expression.Scope, list string, container map[string]any) error {
	v, err := it.node.render(r, s.Container(container))
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok || !hasFields(m) {
		return nil
	}
	name, _ := container["name"].(string)
	m = maps.Clone(m)
	m["name"] = name
	r.extensions = append(r.extensions, extension{item: it, list: list, name: name, object: m})
	return nil
}

// hasFields reports whether an object has a field, or a directive that does something
// without one.
func hasFields(m map[string]any) bool {
	for key := range m {
		if !directive.Is(key) || key == directive.Patch || key == directive.Unset {
			return true
		}
	}
	return false
}
