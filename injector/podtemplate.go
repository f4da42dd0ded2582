package injector

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/record"
)

// applyToTemplate brings the pod template up to date that the pod would be created of. It
// is applied the same plan as the pod, seen from the template: what the template's
// controller adds is neither in the result nor in its record.
func (w *injection) applyToTemplate(rec record.Record) error {
	if w.request.PodTemplate == nil {
		return nil
	}
	plan := w.planned
	plan.Base = rec.Base(w.request.PodTemplate)
	plan.Pod, _ = written(plan.Base, w.base, w.planned.Pod).(map[string]any)
	result, err := apply.Apply(w.work.ctx, w.request.PodTemplate, rec, plan, w.pipeline.statusKey)
	if err != nil {
		return fmt.Errorf("applying the plan to the pod template: %w", err)
	}
	w.out.PodTemplate = result.Pod
	w.out.PodTemplateOperations, err = operations(w.work.ctx, w.request.PodTemplate, result, w.planned.Known())
	return err
}

// written returns changed without what created has and was has not: was is a pod
// template, created the pod made of it, and changed that pod after a change. A value that
// the change replaced stays. It returns nil if nothing is left that belongs to was or
// to the change. The input is not modified.
func written(was, created, changed any) any {
	if reflect.DeepEqual(was, created) {
		return changed
	}
	if reflect.DeepEqual(created, changed) {
		return was
	}
	switch changed := changed.(type) {
	case map[string]any:
		if made, ok := created.(map[string]any); ok {
			fields, _ := was.(map[string]any)
			if left := writtenFields(fields, made, changed); was != nil || len(left) > 0 {
				return left
			}
			return nil
		}
	case []any:
		if made, ok := created.([]any); ok {
			items, _ := was.([]any)
			if left := writtenItems(items, made, changed); was != nil || len(left) > 0 {
				return left
			}
			return nil
		}
	}
	return changed
}

func writtenFields(was, created, changed map[string]any) map[string]any {
	left := map[string]any{}
	for key, value := range changed {
		made, ok := created[key]
		if !ok {
			left[key] = value
			continue
		}
		if v := written(was[key], made, value); v != nil {
			left[key] = v
		} else if null, ok := was[key]; ok {
			left[key] = null
		}
	}
	for key, value := range was { // what the controller leaves out
		_, made := created[key]
		if _, have := left[key]; !made && !have {
			left[key] = value
		}
	}
	return left
}

// writtenItems goes over the items of a list. Items with names are found by them. The
// items of was stand in their own order among each other.
func writtenItems(was, created, changed []any) []any {
	named := func(item any) string { object, _ := item.(map[string]any); return nameOf(object) }
	find := func(list []any, item any) int {
		name := named(item)
		return slices.IndexFunc(list, func(other any) bool {
			return name != "" && name == named(other) || name == "" && reflect.DeepEqual(other, item)
		})
	}
	left := []any{}
	var places, order []int // of the written items: in left, and in was
	items := map[int]any{}
	for _, item := range changed {
		made := find(created, item)
		if made < 0 {
			left = append(left, item)
			continue
		}
		var before any
		at := find(was, item)
		if at >= 0 {
			before = was[at]
		}
		v := written(before, created[made], item)
		if v == nil {
			continue
		}
		if _, twice := items[at]; at >= 0 && !twice {
			places, order, items[at] = append(places, len(left)), append(order, at), v
		}
		left = append(left, v)
	}
	slices.Sort(order)
	for i, at := range order {
		left[places[i]] = items[at]
	}
	return left
}
