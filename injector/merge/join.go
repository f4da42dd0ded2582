package merge

import (
	"strings"

	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// A template can join a text to an annotation or to a variable. A text that is already there, alone or between
// separators, is not joined again. A prepended text comes after those that earlier templates prepended.

// joined is a text during the joining of others.
type joined struct {
	text string
	// front is the number of prepended bytes at the beginning.
	front int
	// pieces caches the parts between separators, by separator. It is dropped when the text changes.
	pieces map[string]map[string]bool
}

func (j *joined) join(text directive.Join) {
	if j.has(text) {
		return
	}
	parts := j.pieces[text.Separator]
	j.pieces = nil
	if parts != nil && !strings.Contains(text.Text, text.Separator) {
		parts[text.Text] = true
		j.pieces = map[string]map[string]bool{text.Separator: parts}
	}
	switch {
	case j.text == "":
		j.text = text.Text
		if text.Side == directive.InFront {
			j.front = len(j.text)
		}
	case text.Side == directive.Behind:
		if j.front > 0 && j.front == len(j.text) {
			j.front += len(text.Separator)
		}
		j.text += text.Separator + text.Text
	case j.front > 0 && j.front == len(j.text):
		j.text += text.Separator + text.Text
		j.front = len(j.text)
	default:
		j.text = j.text[:j.front] + text.Text + text.Separator + j.text[j.front:]
		j.front += len(text.Text) + len(text.Separator)
	}
}

// has reports whether the text is already joined.
func (j *joined) has(text directive.Join) bool {
	if strings.Contains(text.Text, text.Separator) {
		return strings.Contains(text.Separator+j.text+text.Separator, text.Separator+text.Text+text.Separator)
	}
	parts, known := j.pieces[text.Separator]
	if !known {
		parts = map[string]bool{}
		for piece := range strings.SplitSeq(j.text, text.Separator) {
			parts[piece] = true
		}
		if j.pieces == nil {
			j.pieces = map[string]map[string]bool{}
		}
		j.pieces[text.Separator] = parts
	}
	return parts[text.Text] && j.text != ""
}

// separatesOtherwise reports a conflict if another required template joins texts to the place with another
// separator. In a pod with both, neither template would find its own text again.
func (m *merger) separatesOtherwise(at place, now any, texts []directive.Join) bool {
	if !m.template.Required || at.writers == nil || at.writers.separator == "" {
		return false
	}
	for _, text := range texts {
		if text.Separator != at.writers.separator {
			m.disagree(at, at.writers.by, now, text.Text, hintSeparators)
			return true
		}
	}
	return false
}

// addsToWhole reports a conflict if another required template set the text to which this one joins its own. In
// a pod with both, that template would find another text.
func (m *merger) addsToWhole(at place, now any, text string) bool {
	if !m.template.Required || at.writers == nil || !at.writers.required || at.writers.separator != "" {
		return false
	}
	m.disagree(at, at.writers.by, now, text, hintWholeText)
	return true
}

// joins completes the last write with the prepended bytes and the separator.
func (m *merger) joins(j joined, text directive.Join) {
	w := &m.result.Writes[len(m.result.Writes)-1]
	w.front = j.front
	if m.template.Required {
		w.separator = text.Separator
	}
}

// joinTexts joins texts to a value. The first bytes of the value may be texts that earlier templates prepended.
func (m *merger) joinTexts(at place, value string, texts []directive.Join) joined {
	j := joined{text: value}
	// A required template prepends its text to those of templates that are not required. There it finds its
	// text again, with any separator.
	if at.writers != nil && (!m.template.Required || at.writers.separator != "") {
		j.front = min(at.writers.front, len(value))
	}
	for _, text := range texts {
		j.join(text)
	}
	return j
}

// joinField joins a text to an annotation.
func (m *merger) joinField(t *podschema.Type, f *fields, n fragment.Field, at place) error {
	if n.Join.Text == "" {
		return nil
	}
	now, there := f.now[n.Name], f.now[n.Name] != nil
	if w := at.writers; !there && w != nil && w.deleted {
		m.disagree(at, w.by, nil, n.Join.Text, hintDeletes)
		return nil
	}
	value, isText := now.(string)
	if there && !isText {
		return m.malformed(at, "text", now)
	}
	if m.separatesOtherwise(at, now, []directive.Join{*n.Join}) {
		return nil
	}
	j := m.joinTexts(at, value, []directive.Join{*n.Join})
	if there && j.text == value {
		m.agree(at, t, value)
		m.joins(j, *n.Join)
		return nil
	}
	effect := Added
	if there {
		effect = Appended
	}
	if there && m.addsToWhole(at, now, n.Join.Text) {
		return nil
	}
	m.writeField(f, at, t, effect, j.text)
	m.joins(j, *n.Join)
	return nil
}

// freshText is the text of a new variable, to which others may be joined.
type freshText struct {
	joined joined
	text   directive.Join
}

// joined returns a new variable with the texts.
func (l *list) joined(it fragment.Item, texts []directive.Join) fragment.Item {
	j := l.joinTexts(place{}, "", texts)
	n := fragment.Of(l.id.Elem, it.JSON())
	n.Set("value", fragment.Scalar(nil, j.text))
	n.Position = it.Position
	if l.fresh == nil {
		l.fresh = map[string]freshText{}
	}
	l.fresh[it.Key] = freshText{j, texts[0]}
	return fragment.Item{Key: it.Key, Node: n}
}

// join joins texts to a variable that the list has.
func (l *list) join(i int, texts []directive.Join, at place) error {
	item := podschema.ObjectOf(l.now[i])
	if item["valueFrom"] != nil {
		l.disagree(at, at.wrote(), item, texts[0].Text, hintSource)
		return nil
	}
	value, isText := item["value"].(string)
	if !isText && item["value"] != nil {
		return l.malformed(at, "text", item["value"])
	}
	if l.separatesOtherwise(at, item, texts) {
		return nil
	}
	j := l.joinTexts(at, value, texts)
	if j.text == value {
		l.agree(at, l.id.Elem, item)
		l.joins(j, texts[0])
		return nil
	}
	if l.addsToWhole(at, item, texts[0].Text) {
		return nil
	}
	wanted := map[string]any{}
	for name, v := range item {
		wanted[name] = v
	}
	wanted["value"] = j.text
	l.write(Write{Path: at.path, Type: l.id.Elem, Effect: Appended, Value: wanted, Was: item, Had: true})
	l.joins(j, texts[0])
	l.set(i, wanted)
	return nil
}
