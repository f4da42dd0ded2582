package templates

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/expression"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/show"
)

// node is a part of a compiled fragment.
type node interface {
	// render returns the node for a pod, nil to leave it out. Its error is a *expression.Error, or that of the
	// run's context.
	render(r *renderer, s *expression.Scope) (*fragment.Node, error)
}

// constant is a part of the fragment without expressions.
type constant struct {
	at    *manifest.Path
	typ   *podschema.Type
	value any
	bytes int // as JSON
}

func newConstant(h here, v any) *constant {
	return &constant{at: h.at, typ: h.typ, value: v, bytes: len(podschema.Encode(v))}
}

func (c *constant) render(r *renderer, s *expression.Scope) (*fragment.Node, error) {
	if err := r.run.Spend(c.bytes, c.at); err != nil {
		return nil, err
	}
	return fragment.Of(c.typ, c.value), nil
}

// text is a text that contains expressions.
type text struct {
	expression.Place
	typ   *podschema.Type
	parts []textPart
}

// textPart is a literal, or an expression.
type textPart struct {
	literal    string
	expression *expression.Expression
}

func (t *text) render(r *renderer, s *expression.Scope) (*fragment.Node, error) {
	joined, err := joinText(t.parts, s)
	if err != nil {
		return nil, err
	}
	if t.typ != nil {
		if _, err := fitScalar(joined, t.typ); err != nil {
			return nil, &expression.Error{Place: t.Place, Message: err.Error()}
		}
	}
	return fragment.Scalar(t.typ, joined), nil
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

// whole is an expression that is a whole value.
type whole struct {
	expression *expression.Expression
	typ        *podschema.Type
}

func (w *whole) render(r *renderer, s *expression.Scope) (*fragment.Node, error) {
	v, err := w.expression.Value(s)
	if err != nil {
		return nil, err
	}
	fitted, err := r.template.fit(v, w.typ)
	if err != nil {
		return nil, w.failure(err)
	}
	return fragment.Of(w.typ, fitted), nil
}

// splice renders an expression as an item of a list. The items of a list value replace it.
func (w *whole) splice(r *renderer, s *expression.Scope) ([]*fragment.Node, error) {
	v, err := w.expression.Value(s)
	if err != nil {
		return nil, err
	}
	values, isList := v.([]any)
	if !isList {
		values = []any{v}
	}
	var nodes []*fragment.Node
	for i, v := range values {
		fitted, err := r.template.fit(v, w.typ)
		if err != nil {
			if isList {
				err = within("item "+strconv.Itoa(i), err)
			}
			return nil, w.failure(err)
		}
		if n := fragment.Of(w.typ, fitted); n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// failure describes the mistake in the expression's value, and suggests a form that works.
func (w *whole) failure(err error) error {
	message := err.Error()
	var wrong *misfit
	if errors.As(err, &wrong) && wrong.want != nil {
		message += w.expression.Form(wrong.value, wrong.want, len(wrong.in) > 0)
	}
	return &expression.Error{Place: w.expression.Place, Message: show.Plain(message)}
}

// mapping is an object with expressions or directives.
type mapping struct {
	expression.Place
	// scalar is set for a scalar with directives for the merge, {$onConflict: …, value: V}: the
	// value is the only entry.
	scalar    bool
	typ       *podschema.Type
	condition *expression.Expression
	entries   []entry
	// directed is set if there are directives for the merge, and says has them. The text of a $append is the
	// entry's value. anchor is the name in a $position if it has an expression.
	directed bool
	says     directive.Directives
	anchor   []textPart
}

// entry is one key of a mapping. The key is a literal or a text.
type entry struct {
	key   string
	text  []textPart
	value node
}

func (m *mapping) render(r *renderer, s *expression.Scope) (*fragment.Node, error) {
	if m.condition != nil {
		if yes, err := m.condition.Condition(s); err != nil || !yes {
			return nil, err
		}
	}
	out := &fragment.Node{Kind: fragment.Object, Type: m.typ, Fields: make([]fragment.Field, 0, len(m.entries))}
	for _, e := range m.entries {
		key, err := m.key(e, s, out)
		if err != nil {
			return nil, err
		}
		n, err := e.value.render(r, s)
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}
		if err := r.run.Spend(len(key)+4, m.At); err != nil {
			return nil, err
		}
		out.Set(key, n)
	}
	if len(out.Fields) == 0 && m.isMap() && len(m.entries) > 0 {
		return nil, nil
	}
	return m.withDirectives(out, s)
}

// withDirectives returns the rendered object with its directives.
func (m *mapping) withDirectives(out *fragment.Node, s *expression.Scope) (*fragment.Node, error) {
	value := out.Field("value")
	if m.scalar {
		if value == nil {
			return nil, nil // an expression left out the value
		}
		out = value
	}
	out.Directives = m.says
	out.Unset = slices.Clone(m.says.Unset)
	if m.says.Join != nil {
		if value == nil {
			return nil, nil
		}
		text, ok := value.Value.(string)
		if !ok {
			return nil, &expression.Error{Place: m.Place, Message: fmt.Sprintf("needs text to join; got %s", show.Kind(value.Value))}
		}
		join := *m.says.Join
		join.Text, out.Join = text, &join
	}
	if m.anchor != nil {
		anchor, err := joinText(m.anchor, s)
		if err != nil {
			return nil, err
		}
		out.Position.Anchor = anchor
	}
	return out, nil
}

func (m *mapping) isMap() bool { return m.typ != nil && m.typ.Kind() == podschema.Map }

func (m *mapping) key(e entry, s *expression.Scope, out *fragment.Node) (string, error) {
	key := e.key
	if e.text != nil {
		var err error
		if key, err = joinText(e.text, s); err != nil {
			return "", err
		}
	}
	wrong := ""
	switch {
	case key == "":
		wrong = "is empty"
	case directive.Is(key):
		wrong = "begins with $"
	case out.Field(key) != nil:
		wrong = "is there twice"
	default:
		return key, nil
	}
	return "", &expression.Error{Place: m.Place, Message: fmt.Sprintf("the key %s %s", show.Value(key), wrong)}
}

// sequence is a list with expressions or directives.
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

// each selects the containers of the base pod that an item with $each extends.
type each string

// The values of $each.
const (
	eachApp  each = "App"
	eachInit each = "Init"
	eachAll  each = "All"
)

func (q *sequence) render(r *renderer, s *expression.Scope) (*fragment.Node, error) {
	id, keyed := q.typ.Identity()
	out := rendering{id: id, keyed: keyed}
	for i := range q.items {
		if err := q.renderItem(r, &q.items[i], s, &out); err != nil {
			return nil, err
		}
	}
	switch {
	case out.replaces, len(out.items) > 0:
		return &fragment.Node{Kind: fragment.List, Type: q.typ, Items: out.items, Directives: directive.Directives{Replace: out.replaces}}, nil
	case len(out.values) > 0:
		return fragment.Scalar(q.typ, out.values), nil
	}
	return nil, nil
}

// rendering has the rendered items of a sequence.
type rendering struct {
	id    podschema.Identity
	keyed bool
	// items are those of a list with keys, values those of any other list.
	items  []fragment.Item
	values []any
	// joins has the keys whose items all join a text.
	joins map[string]bool
	// replaces is set by the item {$patch: replace}, which applies to the list.
	replaces bool
}

func (q *sequence) renderItem(r *renderer, it *item, s *expression.Scope, out *rendering) error {
	once := func(s *expression.Scope) error {
		if w, ok := it.node.(*whole); ok {
			nodes, err := w.splice(r, s)
			for _, n := range nodes {
				if err == nil {
					err = q.add(r, it, n, out)
				}
			}
			return err
		}
		n, err := it.node.render(r, s)
		if err != nil || n == nil {
			return err
		}
		return q.add(r, it, n, out)
	}
	switch {
	case it.loop != nil:
		return it.loop.over.Repeat(s, it.loop.name, it.Place, once)
	case it.each != "":
		return renderEach(r, it, s)
	}
	return once(s)
}

// add adds an item. In a list with keys the item must have a key of its own, unless both items join a text to
// one variable.
func (q *sequence) add(r *renderer, it *item, n *fragment.Node, out *rendering) error {
	switch {
	case n.Marker:
		out.replaces = true
		return nil
	case !out.keyed:
		out.values = append(out.values, n.JSON())
		return nil
	}
	key, wrong := q.keyOf(n, out)
	if wrong != "" {
		if port := n.Field("containerPort"); port != nil {
			if advice := r.template.PortAdvice(fmt.Sprint(port.Value), r.params.ByName); advice != "" {
				wrong += "; " + advice
			}
		}
		return &expression.Error{Place: it.Place, Message: wrong}
	}
	if joins, twice := out.joins[key]; twice && out.id.Set() && !joins {
		return nil
	}
	if out.joins == nil {
		out.joins = map[string]bool{}
	}
	out.joins[key] = n.Join != nil
	out.items = append(out.items, fragment.Item{Key: key, Node: n})
	return nil
}

// keyOf returns the key of an item, or a description of the mistake in the item.
func (q *sequence) keyOf(n *fragment.Node, out *rendering) (key, wrong string) {
	if out.id.Set() {
		bare := *n
		bare.Directives = directive.Directives{}
		key, _ = out.id.Key(bare.JSON())
		return key, ""
	}
	m := map[string]any{}
	for _, k := range out.id.Keys {
		if f := n.Field(k.Name); f != nil {
			m[k.Name] = f.Value
		}
		if v := k.Value(m); v == nil || v == "" {
			return "", fmt.Sprintf("an item of this list needs %s", k.Name)
		}
	}
	key, _ = out.id.KeyOf(m)
	if joins, twice := out.joins[key]; twice && !(joins && n.Join != nil) {
		words := make([]string, len(out.id.Keys))
		for i, k := range out.id.Keys {
			words[i] = k.Name + " " + show.Value(fmt.Sprint(k.Value(m)))
		}
		return "", fmt.Sprintf("two items have the same %s", strings.Join(words, " and "))
	}
	return key, ""
}

// renderEach extends containers of the pod. The renderer keeps the items, because they go to two
// lists, and several may extend one container.
func renderEach(r *renderer, it *item, s *expression.Scope) error {
	for _, list := range containerLists {
		if it.each == eachApp && list != "containers" || it.each == eachInit && list != "initContainers" {
			continue
		}
		for _, c := range r.containers(list) {
			if err := r.run.Repetition(it.Place); err != nil {
				return err
			}
			name, _ := c["name"].(string)
			if it.each != eachAll && (r.template.foreign.Has(name) || r.sidecar != nil && r.sidecar(c)) {
				continue
			}
			n, err := it.node.render(r, s.Container(c))
			if err != nil {
				return err
			}
			if n == nil || len(n.Fields)+len(n.Unset) == 0 {
				continue
			}
			n.Set("name", fragment.Scalar(n.Type.Child("name"), name))
			r.extensions = append(r.extensions, extension{item: it, list: list, name: name, node: n})
		}
	}
	return nil
}
