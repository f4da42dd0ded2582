package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// place is where the merge stands, and which rules hold there.
type place struct {
	parent  *place
	segment string
	node    *Change // nil until something is noted there

	owner      string // the template whose item surrounds this place, if any
	onConflict string // what a conflict with the pod does here
	explicit   bool   // onConflict comes from a $onConflict or another directive, here or above
	stays      bool   // inside a container that is the pod's own
	author     bool   // inside an author's container that may override a sidecar
}

func (p *place) field(name string) *place {
	c := *p
	c.parent, c.segment, c.node = p, name, p.node.Child(name)
	return &c
}

// with returns p under the $onConflict of the fragment's value, if it has one.
func (p *place) with(v *node) *place {
	if v != nil && v.says.Conflict != "" {
		c := *p
		c.onConflict, c.explicit = v.says.Conflict, true
		return &c
	}
	return p
}

// overruling returns the place of a directive that overrules the pod, unless a
// $onConflict says what else to do.
func (p *place) overruling() *place {
	if p.explicit {
		return p
	}
	c := *p
	c.onConflict, c.explicit = Overwrite, true
	return &c
}

// inside returns the place for what is in an item or object that a template put
// there.
func (p *place) inside() *place {
	n := p.find()
	if !n.Writes() {
		return p
	}
	c := *p
	c.owner = n.Templates[0]
	return &c
}

// find returns what is noted of the place, nil for nothing.
func (p *place) find() *Change {
	if p.node == nil && p.parent != nil {
		p.node = p.parent.find().Child(p.segment)
	}
	return p.node
}

// inWritten reports whether the place is in a value that templates put there as a whole.
func (p *place) inWritten() bool {
	for p = p.parent; p != nil; p = p.parent {
		if p.find().Writes() {
			return true
		}
	}
	return false
}

// note returns the change of the place, made if need be.
func (p *place) note() *Change {
	if p.find() == nil {
		p.node = p.parent.note().enter(p.segment)
	}
	return p.node
}

// path returns the keyed path that leads here.
func (p *place) path() []string {
	var path []string
	for ; p != nil && p.parent != nil; p = p.parent {
		path = append(path, p.segment)
	}
	slices.Reverse(path)
	return path
}

func (p *place) String() string { return podschema.Readable(p.path()) }

// is reports whether the place is the field at that path of the pod.
func (p *place) is(path ...string) bool {
	for _, segment := range slices.Backward(path) {
		if p == nil || p.parent == nil || p.segment != segment {
			return false
		}
		p = p.parent
	}
	return p != nil && p.parent == nil
}

// noteAdded notes a value that is put where the pod had none: as one item, or as
// a made object or list and the items in it.
func (p *place) noteAdded(template string, t *podschema.Type, v any, whole bool) {
	n := p.note()
	if whole || t.IsOneAddition() {
		n.put(Write, nil)
		n.claim(template, t, v, false)
		return
	}
	n.put(Make, nil)
	n.by(template)
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			p.field(name).noteAdded(template, t.Child(name), value, false)
		}
	case []any:
		id, _ := t.Identity()
		for _, item := range v {
			if key, ok := id.Key(item); ok {
				p.field(key).noteItem(template, id, item)
			}
		}
	}
}

// noteItem notes an item that is put into a list.
func (p *place) noteItem(template string, id podschema.Identity, v any) {
	n := p.note()
	n.put(Write, nil)
	n.claim(template, id.Elem, v, false)
}

func objectOf(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}
