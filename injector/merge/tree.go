package merge

import (
	"maps"
	"slices"
)

// object is a JSON object of the pod that the merge has reached: its own copy,
// made once, however many templates come by. What is not reached is shared with
// the pod that came in.
type object struct {
	fields  map[string]any
	objects map[string]*object
	lists   map[string]*list
}

func newObject(fields map[string]any) *object {
	return &object{fields: maps.Clone(fields), objects: map[string]*object{}, lists: map[string]*list{}}
}

// object returns the object in a field, and false if the field holds none.
func (o *object) object(name string) (*object, bool) {
	if c, ok := o.objects[name]; ok {
		return c, true
	}
	fields, ok := o.fields[name].(map[string]any)
	if !ok {
		return nil, false
	}
	c := newObject(fields)
	o.objects[name] = c
	o.fields[name] = c.fields
	return c, true
}

// list returns the list in a field, and false if the field holds none.
func (o *object) list(name string, id identity) (*list, bool) {
	if l, ok := o.lists[name]; ok {
		return l, true
	}
	items, ok := o.fields[name].([]any)
	if !ok {
		return nil, false
	}
	l := &list{items: slices.Clone(items), id: id, objects: map[string]*object{}, parent: o, name: name}
	l.reindex()
	o.lists[name] = l
	o.fields[name] = l.items
	return l, true
}

// put sets a field, forgetting what was known below it.
func (o *object) put(name string, v any) {
	delete(o.objects, name)
	delete(o.lists, name)
	o.fields[name] = v
}

func (o *object) remove(name string) {
	o.put(name, nil)
	delete(o.fields, name)
}

// list is a list of the pod whose items have an identity, indexed once.
type list struct {
	parent *object
	name   string
	id     identity

	items   []any
	index   map[string]int // the first item of each key
	objects map[string]*object
	first   int // where the next item that wants to be first goes
}

func (l *list) reindex() {
	l.index = indexOf(l.items, l.id)
}

// indexOf returns where the first item of each key is.
func indexOf(items []any, id identity) map[string]int {
	index := make(map[string]int, len(items))
	for i, item := range items {
		if key, ok := id.key(item); ok {
			if _, taken := index[key]; !taken {
				index[key] = i
			}
		}
	}
	return index
}

// object returns the item of that key for changing.
func (l *list) object(key string) *object {
	if c, ok := l.objects[key]; ok {
		return c
	}
	i := l.index[key]
	fields, _ := l.items[i].(map[string]any)
	c := newObject(fields)
	l.objects[key] = c
	l.items[i] = c.fields
	return c
}

func (l *list) replace(key string, v any) {
	delete(l.objects, key)
	l.items[l.index[key]] = v
}

func (l *list) append(key string, v any) {
	l.index[key] = len(l.items)
	l.items = append(l.items, v)
	l.parent.fields[l.name] = l.items
}

// removeAll takes out the items of the given indexes, which ascend.
func (l *list) removeAll(out []int) {
	kept, first := make([]any, 0, len(l.items)-len(out)), l.first
	for i, item := range l.items {
		if len(out) == 0 || i != out[0] {
			kept = append(kept, item)
			continue
		}
		if out = out[1:]; i < l.first {
			first--
		}
	}
	l.items, l.first = kept, first
	l.parent.fields[l.name] = l.items
	l.reindex()
}

// insert puts items before the positions that they name, which ascend.
func (l *list) insert(ins []insertion) {
	if len(ins) == 0 {
		return
	}
	grown := make([]any, 0, len(l.items)+len(ins))
	from := 0
	for _, in := range ins {
		grown = append(grown, l.items[from:in.before]...)
		grown = append(grown, in.item.value)
		from = in.before
	}
	l.items = append(grown, l.items[from:]...)
	l.parent.fields[l.name] = l.items
	l.reindex()
}

type insertion struct {
	before int
	item   listItem
}
