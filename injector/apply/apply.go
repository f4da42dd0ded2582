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

// Result is a pod as it shall be, and the way there.
type Result struct {
	// Pod shares unchanged parts with the pod that came in. It has neither the record nor its labels: [Mark]
	// puts them in.
	Pod    map[string]any
	Record record.Record
	// Operations lead from the pod that came in to Pod, one after the other.
	Operations []patch.Operation
	// Warnings are sentences about places that somebody changed since Pillion wrote them, and where a
	// template wants something else now.
	Warnings []string
}

// Apply brings a pod up to date with what the templates want, entry by entry:
//
//	the record has            the pod has there          apply
//	no entry                  anything                   writes what is wanted, notes the original
//	the wanted digest         anything                   leaves it: others' changes are kept
//	the wanted digest         not the item at all        adds it again (a field stays away)
//	another digest            the value with that digest replaces it whole
//	another digest            what somebody changed      leaves it, with a warning
//	an entry, nothing wanted  anything                   leaves it
//
// The error is that of the context, which has ended.
func Apply(ctx context.Context, pod map[string]any, rec record.Record, w *Wanted) (Result, error) {
	a := &run{ctx: ctx, record: rec.Clone()}
	changed := a.object(podschema.Pod(), pod, w.Pod, &w.root, rec.Tree(), nil)
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

// step is what one entry asks for.
type step int

const (
	// keep leaves what stands there, and goes on inside it.
	keep step = iota
	// put writes the wanted value.
	put
	// remove takes away what stands there.
	remove
	// leave leaves all of it, since somebody changed it.
	leave
)

// step decides about a place with an entry, by the table of [Apply].
func (a *run) step(t *podschema.Type, n *node, r *record.Tree, now any, isItem bool) step {
	there := now != nil
	switch {
	case n.effect == merge.Derived:
		return keep
	case n.effect == merge.Made:
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

// set notes the entries of a node and of all in it.
func (a *run) set(n *node) {
	if n.entry != nil {
		a.record.Set[n.path.String()] = *n.entry
	}
	for _, child := range n.in {
		a.set(child)
	}
}

// object applies what is in a node to an object of type t. Want is the object as it is wanted.
func (a *run) object(t *podschema.Type, now, want map[string]any, n *node, r *record.Tree, at *location) map[string]any {
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
	for _, name := range n.segments() {
		child, rc, ft, here := n.in[name], r.Child(name), t.Child(name), at.field(name)
		do := keep
		if child.entry != nil {
			do = a.step(ft, child, rc, now[name], false)
		}
		_, there := now[name]
		switch do {
		case put:
			op := patch.Add
			if there {
				op = patch.Replace
			}
			a.emit(op, here, want[name])
			a.set(child)
			change(name, want[name])
		case remove:
			a.emit(patch.Remove, here, nil)
			a.set(child)
			change(name, nil)
		case leave:
			a.warnings = append(a.warnings, fmt.Sprintf("template %s: %s: %s", child.template, child.path.Readable(), changedSince))
		case keep:
			if v, is := a.inside(ft, now[name], want[name], child, rc, here); is {
				change(name, v)
			}
		}
	}
	return changed
}

// inside applies what is in a node to the value at its place, and reports whether that changes it.
func (a *run) inside(t *podschema.Type, now, want any, n *node, r *record.Tree, at *location) (any, bool) {
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
		changed := a.object(t, now, wanted, n, r, at)
		return changed, len(a.operations) > before
	case []any:
		wanted, _ := want.([]any)
		before := len(a.operations)
		changed := a.list(t, now, wanted, n, r, at)
		return changed, len(a.operations) > before
	}
	// Nothing is there to change: what Pillion wrote in it stays away.
	for _, child := range n.in {
		a.setAbsent(child)
	}
	return nil, false
}

// setAbsent notes the entries of what the API server derives, where nothing stands yet.
func (a *run) setAbsent(n *node) {
	if n.entry != nil && n.effect == merge.Derived {
		a.record.Set[n.path.String()] = *n.entry
	}
	for _, child := range n.in {
		a.setAbsent(child)
	}
}
