package merge

import (
	"context"
	"maps"
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// A template can join a text to an annotation or to an environment variable. The texts of a
// place are noted while the fragments are merged, each at its turn, and joined when all
// are merged: to the value that the pod has, or that a template sets plainly. So the
// order of the templates decides the order of the texts, and nothing else.
//
// Where nothing stands, the first text stands there itself meanwhile, so that a variable
// has its position. Nobody wants that value: a template that sets one plainly puts it
// there, and the text is joined to it.

// joint is a text that a template joins.
type joint struct {
	template string
	directive.Join
}

// joinedTo returns a value with the texts that it does not have yet. Texts in a row that
// have one side and one separator cost one walk over the value, but those that have the
// separator in them, which cost one each.
func joinedTo(ctx context.Context, value string, texts []directive.Join) (string, error) {
	var j joined
	j.add(directive.Behind, "", value)
	for len(texts) > 0 {
		side, separator, run := texts[0].Side, texts[0].Separator, 1
		for run < len(texts) && texts[run].Side == side && texts[run].Separator == separator {
			run++
		}
		there := whichThere(j.String(), separator, texts[:run])
		for _, text := range texts[:run] {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			if there[text.Text] || strings.Contains(text.Text, separator) && hasRow(j.String(), text) {
				continue
			}
			j.add(side, separator, text.Text)
			there[text.Text] = true
		}
		texts = texts[run:]
	}
	return j.String(), nil
}

// joined is a value with the texts that are joined to it, in their order on each side.
type joined struct {
	front, back strings.Builder
	// gap separates the last text in front from what comes behind it.
	gap string
}

func (j *joined) add(side directive.Side, separator, text string) {
	if side == directive.Behind {
		if j.back.Len() > 0 {
			j.back.WriteString(separator)
		}
		j.back.WriteString(text)
		return
	}
	if j.front.Len() > 0 {
		j.front.WriteString(j.gap)
	}
	j.front.WriteString(text)
	j.gap = separator
}

// String returns the value with the texts.
func (j *joined) String() string {
	switch {
	case j.front.Len() == 0:
		return j.back.String()
	case j.back.Len() == 0:
		return j.front.String()
	}
	return j.front.String() + j.gap + j.back.String()
}

// whichThere returns which texts are the value, or stand in it between separators, of
// those that have no separator in them.
func whichThere(value, separator string, texts []directive.Join) map[string]bool {
	there := make(map[string]bool, len(texts))
	for _, j := range texts {
		there[j.Text] = false
	}
	for piece := range strings.SplitSeq(value, separator) {
		if _, asked := there[piece]; asked {
			there[piece] = true
		}
	}
	return there
}

// hasRow reports whether a value is a text, or has it between separators, where the text
// has separators in it.
func hasRow(value string, j directive.Join) bool {
	return value == j.Text || strings.HasPrefix(value, j.Text+j.Separator) || strings.HasSuffix(value, j.Separator+j.Text) ||
		strings.Contains(value, j.Separator+j.Text+j.Separator)
}

// joinedAlone returns the texts without a value. What a template renders is bounded, so that
// nobody has to ask for the time.
func joinedAlone(texts []directive.Join) string {
	value, _ := joinedTo(context.Background(), "", texts)
	return value
}

// textsOf returns the texts of joints.
func textsOf(joints []joint) []directive.Join {
	texts := make([]directive.Join, len(joints))
	for i, j := range joints {
		texts[i] = j.Join
	}
	return texts
}

// joining is one place at which templates join texts.
type joining struct {
	at *place
	// object has the annotation, or list the variable. The other one is nil.
	object *object
	list   *list
	key    string
}

// join notes the texts that the fragment joins at a place. Placed reports that the
// fragment has put the value there because nothing stood there.
func (m *merger) join(at joining, texts []directive.Join, placed bool) {
	n := at.at.note()
	if placed {
		n.put(Hold, nil)
	}
	if len(n.joints) == 0 {
		m.joinings = append(m.joinings, at)
	}
	for _, text := range texts {
		n.joints = append(n.joints, joint{m.frag.Template, text})
	}
}

// joinField treats an annotation to which the fragment joins a text.
func (m *merger) joinField(t *podschema.Type, o *object, name string, text directive.Join, at *place) error {
	if text.Text == "" {
		return nil
	}
	texts, here := []directive.Join{text}, joining{at: at, object: o, key: name}
	if o.fields[name] != nil {
		m.join(here, texts, false)
		return nil
	}
	if n := at.find(); n.asked() {
		return m.agree(existing{at: at, t: t}, text.Text, n)
	}
	o.put(name, text.Text)
	m.join(here, texts, true)
	return nil
}

// makeField makes an object or a list where the wanted pod has none, for a fragment that
// joins a text to something in it.
func (m *merger) makeField(o *object, name string, empty any, at *place) {
	o.put(name, empty)
	n := at.note()
	n.put(Make, nil)
	n.by(m.frag.Template)
}

// joinAll joins the texts that were noted to what is wanted there now.
func (m *merger) joinAll() error {
	behind := map[*list]map[int]any{}
	for _, a := range m.joinings {
		n := a.at.find()
		if err := m.mayJoin(a, n); err != nil {
			return err
		}
		for _, p := range n.joints {
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

// mayJoin refuses to join a text to what a required template sets plainly: it stays as that
// template renders it.
func (m *merger) mayJoin(a joining, n *Change) error {
	setters := n.Templates
	if a.at.owner != "" {
		setters = []string{a.at.owner}
	} else if n.desired == nil {
		return nil
	}
	for _, setter := range setters {
		for _, f := range m.fragments {
			if f.Template != setter || !f.Required {
				continue
			}
			for _, p := range n.joints {
				if p.template != setter {
					stands := podschema.Show(a.value())
					return (&Fragment{Template: p.template}).conflict(a.at, setter, stands, p.Text, "that template is required, so its values cannot be changed")
				}
			}
		}
	}
	return nil
}

// value returns what stands at the place.
func (a joining) value() any {
	if a.object != nil {
		return a.object.fields[a.key]
	}
	return a.list.at(a.key)
}

func (m *merger) joinAnnotation(a joining, n *Change) error {
	value, ok := a.object.fields[a.key].(string)
	if !ok {
		return fragmentOf(n).podFault(a.at, "text", a.object.fields[a.key])
	}
	if n.Do == Hold {
		value = ""
	}
	whole, err := joinedTo(m.ctx, value, textsOf(n.joints))
	if err != nil {
		return err
	}
	if whole != value {
		n.joinTo(value)
		a.object.put(a.key, whole)
	}
	n.desired = &Desired{Type: annotationType(), Value: whole}
	return nil
}

// joinVariable joins texts to a variable. It returns an item to stand behind the
// variable, if that has a source and so cannot have them itself.
func (m *merger) joinVariable(a joining, n *Change, item map[string]any) (behind any, beside bool, err error) {
	name, _ := item["name"].(string)
	if item["valueFrom"] != nil {
		if why := a.noReference(n, name); why != "" {
			other := a.at.owner
			if other == "" && n.Writes() {
				other = n.Templates[0]
			}
			return nil, false, fragmentOf(n).conflict(a.at, other, podschema.Show(item), joinedAlone(textsOf(n.joints)), why)
		}
		reference := "$(" + name + ")"
		whole, err := joinedTo(m.ctx, reference, textsOf(n.joints))
		if err != nil {
			return nil, false, err
		}
		behind := map[string]any{"name": name, "value": whole}
		if mayBeAbsent(item) {
			side := "in front of the text that is appended"
			if n.joints[0].Side == directive.InFront {
				side = "behind the text that is prepended"
			}
			m.warnings.add(n.joints[0].template, a.at, "it comes from an optional source: where that has no value, the process sees "+reference+" "+side)
		}
		n.put(Beside, item)
		n.desired = &Desired{Type: variableType(), Value: behind}
		return behind, true, nil
	}
	value, ok := item["value"].(string)
	if !ok && item["value"] != nil {
		return nil, false, fragmentOf(n).podFault(a.at.field("value"), "text", item["value"])
	}
	if n.Do == Hold {
		value = ""
	}
	whole, err := joinedTo(m.ctx, value, textsOf(n.joints))
	if err != nil {
		return nil, false, err
	}
	if whole != value {
		n.joinTo(item)
		item = withField(item, "value", whole)
		a.list.replace(a.key, item)
	}
	n.desired = &Desired{Type: variableType(), Value: item}
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
func (a joining) noReference(n *Change, name string) string {
	switch {
	case a.at.owner != "" || n.Writes():
		return "the variable has a source, and only the pod's author may combine that with a text"
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

// joinTo notes that texts are joined to a value of the base pod or of a template.
func (c *Change) joinTo(value any) {
	switch c.Do {
	case Nothing, Expect:
		c.put(Join, value)
	case Hold:
		c.Do = Write
	}
}

// fragmentOf stands for the template that was the first to join a text at a place.
func fragmentOf(n *Change) *Fragment { return &Fragment{Template: n.joints[0].template} }

// joinedBy names another template that joins a text at the place, "" for none. It works on nil.
func (c *Change) joinedBy(other string) string {
	if c == nil {
		return ""
	}
	for _, p := range c.joints {
		if p.template != other {
			return p.template
		}
	}
	return ""
}

// Joined reports whether templates join texts to what stands at the place. Of several
// items of its key only the last is as the plan wants it.
func (c *Change) Joined() bool { return len(c.joints) > 0 }
