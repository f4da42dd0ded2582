package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/memo"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// Result is a pod as it shall be, and the way there.
type Result struct {
	// Pod has the annotation with its record, and the labels beside it, unless Pillion did
	// nothing to it.
	// It shares unchanged parts with the pod that came in.
	Pod map[string]any
	// Record is that of Pod.
	Record record.Record
	// Templates are those that the plan gives something to the pod of.
	Templates []string
	// Operations lead from the pod that came in to Pod, one after the other.
	Operations []patch.Operation
	// Warnings are sentences about places that somebody changed since Pillion
	// wrote them, and where the plan wants something else now.
	Warnings []string
}

// TooLargeError reports that the record of what the templates do would be
// larger than [record.MaxBytes].
type TooLargeError struct {
	// Template is the one with the largest fragment.
	Template string
	// Bytes is the size of the record.
	Bytes int
	// Prior is the size of the record that the pod came with, 0 for none.
	Prior int
}

func (e *TooLargeError) Error() string {
	prior := ""
	if e.Prior > 0 {
		prior = fmt.Sprintf("; the pod came with a record of %d bytes: if it is another pod's, remove the annotation from the pod", e.Prior)
	}
	return fmt.Sprintf("the record of what was injected would have %d bytes, %d are allowed%s", e.Bytes, record.MaxBytes, prior)
}

// Apply compares the record, the plan and the pod, and brings the pod up to
// date. StatusKey is the full name of the annotation. The error is a
// [*TooLargeError], for metadata that is no object a [*merge.PodError], or that of the
// context, which has ended.
func Apply(ctx context.Context, pod map[string]any, rec record.Record, plan merge.Plan, statusKey string) (Result, error) {
	names := plan.Templates()
	if len(names) == 0 {
		return Result{Pod: pod, Record: rec}, nil
	}
	a := &run{ctx: ctx, known: plan.Known()}
	written := record.New(statusKey)
	maps.Copy(written.Templates, rec.Templates)
	maps.Copy(written.Required, rec.Required)
	written.Root = rec.Root.Clone()
	a.pod = a.object(spot{change: plan.Root, t: podschema.Pod()}, plan.Base, plan.Pod, pod, written.Root)
	if a.err != nil {
		return Result{}, a.err
	}
	for _, f := range plan.Fragments {
		if slices.Contains(names, f.Template) {
			written.Templates[f.Template] = f.Hash
			delete(written.Required, f.Template)
			if f.Guarded() {
				written.Required[f.Template] = f.Sidecars()
			}
		}
	}
	if err := a.annotate(written, rec, plan, names, statusKey); err != nil {
		return Result{}, err
	}
	return Result{Pod: a.pod, Record: written, Templates: names, Operations: a.operations, Warnings: a.warnings}, nil
}

// run is one application of a plan.
type run struct {
	ctx context.Context
	// known is what is known about values that never change.
	known memo.Tables
	err   error // the context's, once it has ended: nothing counts any more
	pod   map[string]any
	// aside: it is about what the plan puts somewhere as a whole. There is one operation for all of it
	// already.
	aside      bool
	operations []patch.Operation
	warnings   []string
}

func (a *run) emit(op string, at *location, v any) {
	if a.aside {
		return
	}
	a.operations = append(a.operations, patch.New(op, at.pointer(), v, a.known...))
}

// interrupted reports whether the context has ended.
func (a *run) interrupted() bool {
	if a.err == nil {
		a.err = a.ctx.Err()
	}
	return a.err != nil
}

// put sets a field of p.
func (a *run) put(p *fields, name string, at *location, v any) {
	op := patch.Add
	if _, ok := p.now[name]; ok {
		op = patch.Replace
	}
	a.emit(op, at, v)
	p.set(name, v)
}

const changedSince = "another webhook or a user changed it after injection, so it stays, and the template's new value is not applied"

func (a *run) warn(c *merge.Change, at *location) {
	a.warnings = append(a.warnings, fmt.Sprintf("template %s: %s: %s", c.Template(), podschema.Readable(at.keyed()), changedSince))
}
