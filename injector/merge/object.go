package merge

import (
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// object is a JSON object of the wanted pod that the merge has reached. It is
// copied when it is first changed, once, however many templates come by. What the
// merge does not change is shared with the base pod.
type object struct {
	fields  map[string]any
	owned   bool // fields is the wanted pod's own copy
	objects map[string]*object
	lists   map[string]*list

	// The object is the field name of in, or the item of the key name in list, or
	// neither: the pod itself, and objects that are no longer part of it.
	in   *object
	list *list
	name string
}

func newObject(fields map[string]any) *object {
	return &object{fields: fields, objects: map[string]*object{}, lists: map[string]*list{}}
}

// own makes the object the wanted pod's own.
func (o *object) own() {
	if o.owned {
		return
	}
	o.owned, o.fields = true, maps.Clone(o.fields)
	if o.fields == nil {
		o.fields = map[string]any{}
	}
	switch {
	case o.in != nil:
		o.in.own()
		o.in.fields[o.name] = o.fields
	case o.list != nil:
		o.list.own()
		o.list.items[o.list.index[o.name]] = o.fields
	}
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
	c.in, c.name = o, name
	o.objects[name] = c
	return c, true
}

// listOf returns the list in a field, and false if the field holds none.
func (o *object) listOf(name string, id podschema.Identity) (*list, bool) {
	if l, ok := o.lists[name]; ok {
		return l, true
	}
	items, ok := o.fields[name].([]any)
	if !ok {
		return nil, false
	}
	l := &list{id: id, in: o, name: name, objects: map[string]*object{}}
	l.read(items)
	o.lists[name] = l
	return l, true
}

// put sets a field, forgetting what was known below it.
func (o *object) put(name string, v any) {
	o.own()
	o.forget(name)
	o.fields[name] = v
}

func (o *object) remove(name string) {
	o.own()
	o.forget(name)
	delete(o.fields, name)
}

func (o *object) forget(name string) {
	if c := o.objects[name]; c != nil {
		c.in = nil
	}
	if l := o.lists[name]; l != nil {
		l.in = nil
	}
	delete(o.objects, name)
	delete(o.lists, name)
}

// list is a list of the wanted pod whose items have keys. Like an object, it is
// copied when it is first changed.
type list struct {
	in   *object // nil for a list that is no longer part of the pod
	name string
	id   podschema.Identity

	items []any
	owned bool
	// index has the item that each key means: the last one of the key.
	index   map[string]int
	objects map[string]*object
}

func (l *list) own() {
	if l.owned {
		return
	}
	l.owned = true
	l.attach(slices.Clone(l.items))
}

// attach makes items the list's.
func (l *list) attach(items []any) {
	l.items = items
	if l.in != nil {
		l.in.own()
		l.in.fields[l.name] = items
	}
}

// read finds the items of the list.
func (l *list) read(items []any) {
	l.items, l.index = items, make(map[string]int, len(items))
	for i, item := range items {
		if key, ok := l.id.Key(item); ok {
			l.index[key] = i
		}
	}
}

// find returns the index of the item that a key means.
func (l *list) find(key string) (int, bool) {
	i, ok := l.index[key]
	return i, ok
}

// at returns the item that a key means, which the list has.
func (l *list) at(key string) any { return l.items[l.index[key]] }

// object returns the item of that key for changing.
func (l *list) object(key string) *object {
	if c, ok := l.objects[key]; ok {
		return c
	}
	fields, _ := l.at(key).(map[string]any)
	c := newObject(fields)
	c.list, c.name = l, key
	l.objects[key] = c
	return c
}

func (l *list) replace(key string, v any) {
	l.own()
	l.forget(key)
	l.items[l.index[key]] = v
}

func (l *list) forget(key string) {
	if c := l.objects[key]; c != nil {
		c.list = nil
	}
	delete(l.objects, key)
}

// removeAll takes out all items of the keys.
func (l *list) removeAll(keys map[string]bool) {
	kept, start := make([]any, 0, len(l.items)), 0
	for i := range podschema.KeysIn(l.id, l.items, keys) {
		kept = append(kept, l.items[start:i]...)
		start = i + 1
	}
	l.set(append(kept, l.items[start:]...))
	for key := range keys {
		l.forget(key)
	}
}

// add puts items at the end. The list must have none of their keys.
func (l *list) add(items []listItem) {
	l.own()
	for _, it := range items {
		l.index[it.key] = len(l.items)
		l.items = append(l.items, it.value)
	}
	l.attach(l.items)
}

// insertBehind puts each of the values behind the item at its index.
func (l *list) insertBehind(values map[int]any) {
	items := make([]any, 0, len(l.items)+len(values))
	for i, item := range l.items {
		items = append(items, item)
		if v, ok := values[i]; ok {
			items = append(items, v)
		}
	}
	l.set(items)
}

// set makes items the list's.
func (l *list) set(items []any) {
	l.owned = true
	l.attach(items)
	l.read(items)
}
