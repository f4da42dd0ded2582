package apply

import (
	"context"
	"fmt"
	"maps"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Result is the changed pod with its JSON patch and record.
type Result struct {
	// Pod shares unchanged parts with the original pod. It lacks the record and its labels until [Result.Mark]
	// adds them.
	Pod    map[string]any
	Record record.Record
	// Operations are the JSON patch from the original pod to Pod.
	Operations []patch.Operation
	// Warnings name places that somebody changed after injection, and where a template now has another value.
	Warnings []string
}

// Apply changes a pod to the target, entry by entry:
//
//	the record has               the pod has there          Apply
//	no entry                     anything                   writes the target's value, records the original
//	the target's digest          anything                   keeps it: changes by others stay
//	the target's digest          no such item               adds the item again (a field stays absent)
//	another digest               the value with that digest replaces it as a whole
//	another digest               a value changed since      keeps it, with a warning
//	an entry, the target none    anything                   keeps it
//
// Apply returns the error of a context that has ended.
func Apply(ctx context.Context, pod map[string]any, rec record.Record, w *Target) (Result, error) {
	a := &run{ctx: ctx, record: rec.Clone()}
	changed := a.object(podschema.Pod(), pod, w.Pod, cursor{node: &w.root, record: rec.Tree()})
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	return Result{Pod: changed, Record: a.record, Operations: a.operations, Warnings: a.warnings}, nil
}

// run is one application.
type run struct {
	ctx        context.Context
	record     record.Record
	operations []patch.Operation
	warnings   []string
}

func (a *run) emit(op string, at *location, v any) {
	a.operations = append(a.operations, patch.New(op, at.pointer(), v))
}

// cursor is one place in the trees that are walked together.
type cursor struct {
	node *node
	// record is nil if no earlier call wrote below the place.
	record *record.Tree
	at     *location
}

func (c cursor) field(name string) cursor {
	return cursor{c.node.in[name], c.record.Child(name), c.at.field(name)}
}

func (c cursor) item(key string, i int) cursor {
	return cursor{c.node.in[key], c.record.Child(key), c.at.item(key, i)}
}

// step is the change that one entry needs.
type step int

const (
	// keep leaves the value as it is, and continues below it.
	keep step = iota
	// put writes the target's value.
	put
	// remove deletes the value.
	remove
	// leave keeps the whole value, because somebody changed it.
	leave
)

// step decides about a place with an entry, by the table of [Apply].
func (a *run) step(t *podschema.Type, n *node, r *record.Tree, now any, isItem bool) step {
	there := now != nil
	switch {
	case n.effect == merge.Derived:
		if n.entry.Sum != "" && r != nil && r.Entry != nil && r.Entry.Sum != n.entry.Sum && there && r.Entry.Sum == record.Sum(t, now, r) {
			return remove // the API server derives the value again
		}
		return keep
	case n.effect == merge.Created:
		if !there && (r == nil || r.Entry == nil || t != nil && t.Kind() == podschema.List) {
			return put
		}
		return keep
	case r == nil || r.Entry == nil:
		switch {
		case n.effect != merge.Removed, n.entry.Sum != "": // an item of a set is added without a digest
			return put
		case there:
			return remove
		}
		return keep
	case r.Entry.Sum == n.entry.Sum:
		if !there && isItem && n.effect != merge.Removed {
			return put
		}
		return keep
	case r.Entry.Sum == "" && !there, there && r.Entry.Sum == record.Sum(t, now, r):
		if n.effect == merge.Removed {
			return remove
		}
		return put
	}
	return leave
}

const changedSince = "another webhook or a user changed it after injection, so it stays, and the template's new value is not applied"

// set records the entries of a node and of all nodes below it.
func (a *run) set(n *node) {
	if n.entry != nil {
		a.record.Set[n.path.String()] = *n.entry
	}
	for _, child := range n.in {
		a.set(child)
	}
}

// object changes an object of type t to want in the places of the node's tree.
func (a *run) object(t *podschema.Type, now, want map[string]any, c cursor) map[string]any {
	changed, copied := now, false
	change := func(name string, v any) {
		if !copied {
			changed, copied = maps.Clone(now), true
			if changed == nil {
				changed = map[string]any{}
			}
		}
		if v == nil {
			delete(changed, name)
		} else {
			changed[name] = v
		}
	}
	for _, name := range c.node.segments() {
		ft, here := t.Child(name), c.field(name)
		child, do := here.node, keep
		if child.entry != nil {
			do = a.step(ft, child, here.record, now[name], false)
		}
		_, there := now[name]
		switch do {
		case put:
			op := patch.Add
			if there {
				op = patch.Replace
			}
			a.emit(op, here.at, want[name])
			a.set(child)
			change(name, want[name])
		case remove:
			a.emit(patch.Remove, here.at, nil)
			a.set(child)
			change(name, nil)
		case leave:
			a.warnings = append(a.warnings, fmt.Sprintf("template %s: %s: %s", child.template, child.path.Readable(), changedSince))
		case keep:
			if v, is := a.inside(ft, now[name], want[name], here); is {
				change(name, v)
			}
		}
	}
	return changed
}

// inside changes the value at a place to want in the places below it. It reports whether the value changed.
func (a *run) inside(t *podschema.Type, now, want any, c cursor) (any, bool) {
	n := c.node
	if n.entry != nil {
		a.record.Set[n.path.String()] = *n.entry
	}
	if len(n.in) == 0 {
		return nil, false
	}
	switch now := now.(type) {
	case map[string]any:
		wanted, _ := want.(map[string]any)
		before := len(a.operations)
		changed := a.object(t, now, wanted, c)
		return changed, len(a.operations) > before
	case []any:
		wanted, _ := want.([]any)
		before := len(a.operations)
		changed := a.list(t, now, wanted, c)
		return changed, len(a.operations) > before
	}
	// The pod has no value here, so there is nothing to change below: Apply does not write it again.
	for _, child := range n.in {
		a.setAbsent(child)
	}
	return nil, false
}

// setAbsent records the entries of values that the API server derives and has not yet set.
func (a *run) setAbsent(n *node) {
	if n.entry != nil && n.effect == merge.Derived {
		a.record.Set[n.path.String()] = *n.entry
	}
	for _, child := range n.in {
		a.setAbsent(child)
	}
}
