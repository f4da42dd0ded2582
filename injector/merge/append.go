package merge

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// $append joins a text to an annotation or to an environment variable. The texts of a
// place are noted while the fragments are merged, each at its turn, and joined when all
// are merged: behind the value that the pod has, or that a template sets plainly. So the
// order of the templates decides the order of the texts, and nothing else.
//
// Where nothing stands, the first text stands there itself meanwhile, so that a variable
// has its position. Nobody wants that value: a template that sets one plainly puts it
// there, and the text follows.

// suffix is a text that a template appends. The template is not known before the suffix is
// noted.
type suffix struct {
	template, separator, text string
}

// suffixOf returns what $append of a fragment's value appends. Ok is false if there is no
// $append, or an empty text, which adds nothing.
func suffixOf(v any) (p suffix, ok bool) {
	separator, text, ok := directive.AppendOf(v)
	return suffix{separator: separator, text: text}, ok && text != ""
}

// appendsNothing reports whether v is an object with $append and an empty text.
func appendsNothing(v any) bool {
	_, text, ok := directive.AppendOf(v)
	return ok && text == ""
}

// holdsAppend reports whether a fragment's object or list has $append on something in it.
func holdsAppend(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if directive.Appends(v) {
			return true
		}
		for _, value := range v {
			if holdsAppend(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, holdsAppend)
	}
	return false
}

// joined returns a value with the suffixes that it does not have yet. Suffixes in a row that
// have one separator cost one walk over the value, but those whose text has the separator
// in it, which cost one each.
func joined(ctx context.Context, value string, suffixes []suffix) (string, error) {
	var b strings.Builder
	b.WriteString(value)
	for len(suffixes) > 0 {
		separator, run := suffixes[0].separator, 1
		for run < len(suffixes) && suffixes[run].separator == separator {
			run++
		}
		there := whichThere(b.String(), separator, suffixes[:run])
		for _, p := range suffixes[:run] {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			if there[p.text] || strings.Contains(p.text, separator) && hasRow(b.String(), p) {
				continue
			}
			if b.Len() > 0 {
				b.WriteString(separator)
			}
			b.WriteString(p.text)
			there[p.text] = true
		}
		suffixes = suffixes[run:]
	}
	return b.String(), nil
}

// whichThere returns which texts are the value, or stand in it between separators, of
// those that have no separator in them.
func whichThere(value, separator string, suffixes []suffix) map[string]bool {
	there := make(map[string]bool, len(suffixes))
	for _, p := range suffixes {
		there[p.text] = false
	}
	for piece := range strings.SplitSeq(value, separator) {
		if _, asked := there[piece]; asked {
			there[piece] = true
		}
	}
	return there
}

// hasRow reports whether a value is the text of a suffix, or has it between separators,
// where the text has separators in it.
func hasRow(value string, p suffix) bool {
	return value == p.text || strings.HasPrefix(value, p.text+p.separator) || strings.HasSuffix(value, p.separator+p.text) ||
		strings.Contains(value, p.separator+p.text+p.separator)
}

// joinedAlone returns the suffixes without a value in front. What a template renders is
// bounded, so that nobody has to ask for the time.
func joinedAlone(suffixes []suffix) string {
	value, _ := joined(context.Background(), "", suffixes)
	return value
}

// appendAlso adds to an item what a later one of its key appends.
func appendAlso(items []listItem, at int, later any) {
	p, ok := suffixOf(later)
	if it := &items[at]; ok && len(it.appends) > 0 {
		it.appends = append(it.appends, p)
	}
}

// joinAppends makes the items that append several texts have all of them as their value.
func joinAppends(items []listItem) {
	for i := range items {
		if it := &items[i]; len(it.appends) > 1 {
			it.value = withField(it.value.(map[string]any), "value", joinedAlone(it.appends))
		}
	}
}

// appending is one place to which templates append.
type appending struct {
	at *place
	// object has the annotation, or list the variable. The other one is nil.
	object *object
	list   *list
	key    string
}

// append notes the suffixes that the fragment appends at a place. Placed reports that the
// fragment has put the value there because nothing stood there.
func (m *merger) append(a appending, suffixes []suffix, placed bool) {
	n := a.at.note()
	if placed {
		n.put(Write, nil)
	}
	if len(n.suffixes) == 0 {
		m.appendings = append(m.appendings, a)
	}
	for _, p := range suffixes {
		p.template = m.frag.Template
		n.suffixes = append(n.suffixes, p)
	}
}

// appendField treats an annotation to which the fragment appends.
func (m *merger) appendField(t *podschema.Type, o *object, name string, v any, at *place) error {
	p, ok := suffixOf(v)
	if !ok {
		return nil
	}
	suffixes, a := []suffix{p}, appending{at: at, object: o, key: name}
	if o.fields[name] != nil {
		m.append(a, suffixes, false)
		return nil
	}
	if n := at.find(); n.asked() {
		return m.agree(standing{at: at, t: t}, p.text, n)
	}
	o.put(name, p.text)
	m.append(a, suffixes, true)
	return nil
}

// makeField makes an object or a list where the wanted pod has none, for a fragment that
// appends to something in it.
func (m *merger) makeField(o *object, name string, empty any, at *place) {
	o.put(name, empty)
	n := at.note()
	n.put(Make, nil)
	n.by(m.frag.Template)
}

// joinAll joins the texts that were noted to what is wanted there now.
func (m *merger) joinAll() error {
	behind := map[*list]map[int]any{}
	for _, a := range m.appendings {
		n := a.at.find()
		if err := m.mayAppend(a, n); err != nil {
			return err
		}
		for _, p := range n.suffixes {
			n.by(p.template)
		}
		if a.object != nil {
			if err := m.joinAnnotation(a, n); err != nil {
				return err
			}
			continue
		}
		i, ok := a.list.find(a.key)
		if !ok {
			continue
		}
		item, beside, err := m.joinVariable(a, n, objectOf(a.list.items[i]))
		if err != nil {
			return err
		}
		if beside {
			if behind[a.list] == nil {
				behind[a.list] = map[int]any{}
			}
			behind[a.list][i] = item
		}
	}
	for l, items := range behind {
		l.insertBehind(items)
	}
	return nil
}

// mayAppend refuses to append to what a required template sets plainly: it stays as that
// template renders it.
func (m *merger) mayAppend(a appending, n *Change) error {
	setters := n.Templates
	if a.at.owner != "" {
		setters = []string{a.at.owner}
	} else if n.wish == nil {
		return nil
	}
	for _, setter := range setters {
		for _, f := range m.fragments {
			if f.Template != setter || !f.Required {
				continue
			}
			for _, p := range n.suffixes {
				if p.template != setter {
					stands := podschema.Show(a.value())
					return (&Fragment{Template: p.template}).conflict(a.at, setter, stands, p.text, "that template is required, and what it sets stays as it is")
				}
			}
		}
	}
	return nil
}

// value returns what stands at the place.
func (a appending) value() any {
	if a.object != nil {
		return a.object.fields[a.key]
	}
	return a.list.at(a.key)
}

// bare reports whether nothing stands at a place but what was appended there.
func (c *Change) bare() bool { return c.Do == Write && c.was == nil && c.wish == nil }

func (m *merger) joinAnnotation(a appending, n *Change) error {
	value, ok := a.object.fields[a.key].(string)
	if !ok {
		return fragmentOf(n).podFault(a.at, "text", a.object.fields[a.key])
	}
	if n.bare() {
		value = ""
	}
	whole, err := joined(m.ctx, value, n.suffixes)
	if err != nil {
		return err
	}
	if whole != value {
		n.join(value)
		a.object.put(a.key, whole)
	}
	n.wish = &Wish{Type: annotationType(), Value: whole}
	return nil
}

// joinVariable joins texts to a variable. It returns an item to stand behind the
// variable, if that has a source and so cannot have them itself.
func (m *merger) joinVariable(a appending, n *Change, item map[string]any) (behind any, beside bool, err error) {
	name, _ := item["name"].(string)
	if item["valueFrom"] != nil {
		if why := a.noReference(n, name); why != "" {
			other := a.at.owner
			if other == "" && n.Do == Write {
				other = n.Templates[0]
			}
			return nil, false, fragmentOf(n).conflict(a.at, other, podschema.Show(item), joinedAlone(n.suffixes), why)
		}
		reference := "$(" + name + ")"
		whole, err := joined(m.ctx, reference, n.suffixes)
		if err != nil {
			return nil, false, err
		}
		behind := map[string]any{"name": name, "value": whole}
		if mayBeAbsent(item) {
			m.warnings.add(n.suffixes[0].template, a.at, "it comes from an optional source: where that has no value, the process sees "+reference+" in front of the text that is appended")
		}
		n.join(item)
		n.Beside = true
		n.wish = &Wish{Type: variableType(), Value: behind}
		return behind, true, nil
	}
	value, ok := item["value"].(string)
	if !ok && item["value"] != nil {
		return nil, false, fragmentOf(n).podFault(a.at.field("value"), "text", item["value"])
	}
	if n.bare() {
		value = ""
	}
	whole, err := joined(m.ctx, value, n.suffixes)
	if err != nil {
		return nil, false, err
	}
	if whole != value {
		n.join(item)
		item = withField(item, "value", whole)
		a.list.replace(a.key, item)
	}
	n.wish = &Wish{Type: variableType(), Value: item}
	return nil, false, nil
}

// withField returns a copy of an object with another value in a field.
func withField(object map[string]any, name string, v any) map[string]any {
	c := make(map[string]any, len(object)+1)
	maps.Copy(c, object)
	c[name] = v
	return c
}

// noReference says why no second item of a variable can refer to the first, "" if one can.
func (a appending) noReference(n *Change, name string) string {
	switch {
	case a.at.owner != "" || n.Do == Write:
		return "the variable has a source, beside which a text can stand only if the pod's author wrote it"
	case strings.Contains(name, ")"):
		return "the variable has a source, and $(NAME) cannot refer to a name with a bracket"
	}
	return ""
}

// mayBeAbsent reports whether a variable's source is an optional key.
func mayBeAbsent(variable map[string]any) bool {
	for _, source := range objectOf(variable["valueFrom"]) {
		if objectOf(source)["optional"] == true {
			return true
		}
	}
	return false
}

// join notes that texts are joined to a value of the base pod or of a template.
func (c *Change) join(value any) {
	if c.Do == Nothing || c.Do == Expect {
		c.joins = true
		c.put(Write, value)
	}
}

// fragmentOf stands for the template that was the first to append at a place.
func fragmentOf(n *Change) *Fragment { return &Fragment{Template: n.suffixes[0].template} }

// appendedBy names another template that appends at the place, "" for none. It works on nil.
func (c *Change) appendedBy(other string) string {
	if c == nil {
		return ""
	}
	for _, p := range c.suffixes {
		if p.template != other {
			return p.template
		}
	}
	return ""
}

// Appended reports whether templates append text to what stands at the place. Of several
// items of its key only the last is as the plan wants it.
func (c *Change) Appended() bool { return len(c.suffixes) > 0 }
