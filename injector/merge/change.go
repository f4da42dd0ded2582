package merge

import (
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// Action is what has to happen in one place of the base pod.
type Action int

const (
	// Nothing: the place itself stays, places in it may not. With Templates, those
	// want the value that the pod has.
	Nothing Action = iota
	// Make: an object or a list is made, where the base pod has none, to hold what
	// is in it.
	Make
	// Write: the plan's value stands there as a whole, whatever stood there.
	Write
	// Hold: nothing stands there, and the first text to be joined does meanwhile. It is Write
	// once all fragments are merged.
	Hold
	// Join: the base pod's value stands there with the texts that templates join to it.
	Join
	// Beside: the plan's item stands behind one of the base pod that has the same key and
	// stays, as a variable that refers to an earlier one of its name.
	Beside
	// Remove: what the base pod has there goes.
	Remove
	// Expect: the API server derives the value there from what is written
	// elsewhere. The plan's pod may have the value already. The base pod may have
	// another one, which stays until the API server writes its own.
	Expect
	// Renew: what the base pod has there goes, if anything, because the API server
	// derives it anew from what is written elsewhere.
	Renew
)

// Change is what the templates want in one place of the pod, and in the places
// in it. Segments are those of keyed paths.
type Change struct {
	Do Action
	// Templates want it, in their order.
	Templates []string
	// In has the changes in the place, by the next segment.
	In map[string]*Change

	joints   []joint  // the texts that templates join there
	desired  *Desired // nil if no template wants something in the place itself
	was      any      // the base pod's value, unless Do is Nothing
	kept     string   // a template that wants another value, and leaves the pod's alone
	expected any      // the value that the API server derives, if known
	order    *order   // where the items of this list want to stand
	// positions has the item of the base pod's list that each key means. It is made
	// when it is first asked for.
	positions map[string]int
}

// Segments returns the segments of the changes in c, sorted.
func (c *Change) Segments() []string {
	segments := make([]string, 0, len(c.In))
	for segment := range c.In {
		segments = append(segments, segment)
	}
	slices.Sort(segments)
	return segments
}

// Child returns the change of a segment in c, nil for none. It works on nil.
func (c *Change) Child(segment string) *Change {
	if c == nil {
		return nil
	}
	return c.In[segment]
}

func (c *Change) enter(segment string) *Change {
	child := c.In[segment]
	if child == nil {
		child = &Change{}
		if c.In == nil {
			c.In = map[string]*Change{}
		}
		c.In[segment] = child
	}
	return child
}

func (c *Change) walk(visit func(*Change)) {
	visit(c)
	for _, child := range c.In {
		child.walk(visit)
	}
}

// inside returns how to find the values in v, of a type t, at the places in c.
func inside(c *Change, t *podschema.Type, v any) func(segment string) (*podschema.Type, any) {
	if id, keyed := t.Identity(); keyed {
		items, _ := v.([]any)
		index := podschema.IndexIn(id, items, c.In)
		return func(segment string) (*podschema.Type, any) {
			if i, ok := index[segment]; ok {
				return id.Elem, items[i]
			}
			return id.Elem, nil
		}
	}
	object, _ := v.(map[string]any)
	return func(segment string) (*podschema.Type, any) { return t.Child(segment), object[segment] }
}

// by adds a template to those that want the change.
func (c *Change) by(template string) {
	if !slices.Contains(c.Templates, template) {
		c.Templates = append(c.Templates, template)
	}
}

// only reports whether no other template wants the change.
func (c *Change) only(template string) bool {
	return len(c.Templates) == 1 && c.Templates[0] == template
}

// claim notes that a template wants v there, or nothing (gone).
func (c *Change) claim(template string, t *podschema.Type, v any, gone bool) {
	c.desired = &Desired{Type: t, Value: v, Gone: gone}
	if c.Do == Hold {
		c.Do = Write
	}
	c.by(template)
}

// Writes reports whether what stands there as a whole is the plan's. It works on nil.
func (c *Change) Writes() bool {
	return c != nil && (c.Do == Write || c.Do == Hold || c.Do == Join || c.Do == Beside)
}

// ours reports whether a template put what the plan has there. It works on nil.
func (c *Change) ours() bool { return c.Writes() || c != nil && c.Do == Make }

// replaces reports whether a template other than the given one puts its own in the
// place of an object of the base pod. It works on nil.
func (c *Change) replaces(template string) bool {
	if !c.Writes() || c.only(template) {
		return false
	}
	_, object := c.was.(map[string]any)
	return object
}

// unmet returns the change, c or one in it, that wants something which the value v
// of type t does not have. It is nil if there is none, and works on nil.
func (c *Change) unmet(t *podschema.Type, v any) *Change {
	switch {
	case c == nil:
		return nil
	case c.gone():
		if v != nil {
			return c
		}
		return nil
	case c.asked():
		if !podschema.Equal(t, c.desired.Value, v) {
			return c
		}
		return nil
	}
	at := inside(c, t, v)
	for _, segment := range c.Segments() {
		ct, value := at(segment)
		if u := c.In[segment].unmet(ct, value); u != nil {
			return u
		}
	}
	return nil
}

// put notes that the plan puts a value where the base pod has was.
func (c *Change) put(do Action, was any) {
	if c.Do == Nothing || c.Do == Expect {
		c.was = was
	}
	c.Do = do
}

// Expected returns the value that the API server derives where Do is Expect,
// and nil if the plan does not know it.
func (c *Change) Expected() any { return c.expected }

// Desired is what templates want in one place.
type Desired struct {
	Type  *podschema.Type
	Value any
	// Gone: they want nothing there.
	Gone bool
}

// Desired returns what the templates want in the place itself, and nil if they want
// something only in the places in it.
func (c *Change) Desired() *Desired { return c.desired }

// asked reports whether templates want something in the place itself, even if it
// is nothing. It works on nil.
func (c *Change) asked() bool { return c != nil && c.desired != nil }

// gone reports whether templates want nothing there. It works on nil.
func (c *Change) gone() bool { return c.asked() && c.desired.Gone }

// Edits reports whether the change or one in it changes the base pod. It works on
// nil.
func (c *Change) Edits() bool {
	if c == nil {
		return false
	}
	if c.ours() || c.Do == Remove || c.Do == Renew {
		return true
	}
	for _, child := range c.In {
		if child.Edits() {
			return true
		}
	}
	return false
}

// Template names the first template that wants the change or one in it.
func (c *Change) Template() string {
	if len(c.Templates) > 0 {
		return c.Templates[0]
	}
	for _, segment := range c.Segments() {
		if name := c.In[segment].Template(); name != "" {
			return name
		}
	}
	return ""
}
