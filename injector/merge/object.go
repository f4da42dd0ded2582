package merge

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// object is a JSON object of the wanted pod that the merge has reached: its own
// copy, made once, however many templates come by. Parts that the merge does not
// reach are shared with the base pod.
type object struct {
	fields  map[string]any
	objects map[string]*object
	lists   map[string]*list
}

func newObject(fields map[string]any) *object { return &object{fields: maps.Clone(fields)} }

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
	if o.objects == nil {
		o.objects = map[string]*object{}
	}
	o.objects[name] = c
	o.fields[name] = c.fields
	return c, true
}

// list returns the list in a field, and false if the field holds none.
func (o *object) list(name string, id podschema.Identity) (*list, bool) {
	if l, ok := o.lists[name]; ok {
		return l, true
	}
	items, ok := o.fields[name].([]any)
	if !ok {
		return nil, false
	}
	l := &list{items: slices.Clone(items), id: id, parent: o, name: name}
	l.reindex()
	if o.lists == nil {
		o.lists = map[string]*list{}
	}
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

// list is a list of the wanted pod whose items have keys, indexed once.
type list struct {
	parent *object
	name   string
	id     podschema.Identity

	items   []any
	index   map[string]int // the item that each key means
	objects map[string]*object
}

func (l *list) reindex() { l.index = IndexOf(l.id, l.items) }

// IndexOf returns the index of the item that each key means. An author may have
// an item twice, as environments do. Then the key means the last one, which is
// the one that counts.
func IndexOf(id podschema.Identity, items []any) map[string]int {
	index := make(map[string]int, len(items))
	for i, item := range items {
		if key, ok := id.Key(item); ok {
			index[key] = i
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
	if c.fields == nil {
		c.fields = map[string]any{}
	}
	if l.objects == nil {
		l.objects = map[string]*object{}
	}
	l.objects[key] = c
	l.items[i] = c.fields
	return c
}

func (l *list) replace(key string, v any) {
	delete(l.objects, key)
	l.items[l.index[key]] = v
}

// removeAll takes out all items of the keys.
func (l *list) removeAll(keys map[string]bool) {
	l.set(slices.DeleteFunc(slices.Clone(l.items), func(item any) bool {
		key, ok := l.id.Key(item)
		return ok && keys[key]
	}))
	for key := range keys {
		delete(l.objects, key)
	}
}

// set makes items the list's.
func (l *list) set(items []any) {
	l.items = items
	l.parent.fields[l.name] = items
	l.reindex()
}
