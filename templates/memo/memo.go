package memo

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
)

// Table has values that never change, and what is known about them. Its values are found
// again by where they are in memory, so a copy of a value is another value. A Table is for any
// number of goroutines. A nil Table is an empty one.
type Table struct {
	// entries has them by their values' addresses. The map is replaced, never changed.
	entries atomic.Pointer[map[uintptr]*Entry]
	adding  sync.Mutex
}

// Entry is one value of a [Table], with what is known about it.
type Entry struct {
	// value is kept, so that no other value can be in its place in memory.
	value any
	// results is replaced, never changed.
	results atomic.Pointer[[]result]
}

// result is what was worked out for a [Key].
type result struct{ key, value any }

// Keep adds a value, with all objects and lists that are in it. Nobody may change any of them
// from then on.
func (t *Table) Keep(v any) {
	if t == nil || address(v) == 0 || t.Of(v) != nil {
		return
	}
	t.adding.Lock()
	defer t.adding.Unlock()
	entries := map[uintptr]*Entry{}
	if old := t.entries.Load(); old != nil {
		maps.Copy(entries, *old)
	}
	add(entries, v)
	t.entries.Store(&entries)
}

// add adds a value and those in it.
func add(entries map[uintptr]*Entry, v any) {
	where := address(v)
	if where == 0 || entries[where] != nil {
		return
	}
	entries[where] = &Entry{value: v}
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			add(entries, value)
		}
	case []any:
		for _, item := range v {
			add(entries, item)
		}
	}
}

// Of returns the entry of a value, and nil if the table does not have it.
func (t *Table) Of(v any) *Entry {
	if t == nil {
		return nil
	}
	where := address(v)
	entries := t.entries.Load()
	if where == 0 || entries == nil {
		return nil
	}
	e := (*entries)[where]
	if e == nil {
		return nil
	}
	// A list may begin where a longer one does.
	if list, ok := v.([]any); ok && len(e.value.([]any)) != len(list) {
		return nil
	}
	return e
}

// address returns where an object or a list is in memory, and 0 for anything else and for
// what is empty.
func address(v any) uintptr {
	switch in := v.(type) {
	case map[string]any:
		if len(in) > 0 {
			return reflect.ValueOf(v).Pointer()
		}
	case []any:
		if len(in) > 0 {
			return reflect.ValueOf(v).Pointer()
		}
	}
	return 0
}

// Tables are several tables.
type Tables []*Table

// maxTables is how many tables are asked for a value. Sixteen templates have so many. To ask
// those of more for each value of a pod would cost more than it saves.
const maxTables = 32

// Of returns the entry of a value, and nil if none of the tables has it, or if they are too
// many to ask.
func (t Tables) Of(v any) *Entry {
	if len(t) > maxTables {
		return nil
	}
	for _, table := range t {
		if e := table.Of(v); e != nil {
			return e
		}
	}
	return nil
}

// Key is for what one package works out about values, which depends on the value alone. Make
// one with new: it is known by its address.
type Key[A any] struct{ _ byte }

// Do returns what is known for an entry's value, which is worked out if it is not known. If
// there is no entry, it is worked out each time.
func (k *Key[A]) Do(e *Entry, work func() A) A {
	if e == nil {
		return work()
	}
	if known, ok := k.Known(e); ok {
		return known
	}
	made := work()
	for {
		old := e.results.Load()
		// Whoever was first has what all share.
		if known, ok := k.in(old); ok {
			return known
		}
		all := []result{{k, made}}
		if old != nil {
			all = append(slices.Clip(*old), all...)
		}
		if e.results.CompareAndSwap(old, &all) {
			return made
		}
	}
}

// Known returns what has been worked out before.
func (k *Key[A]) Known(e *Entry) (known A, ok bool) {
	if e == nil {
		return known, false
	}
	return k.in(e.results.Load())
}

func (k *Key[A]) in(results *[]result) (known A, ok bool) {
	if results != nil {
		for _, r := range *results {
			if r.key == any(k) {
				return r.value.(A), true
			}
		}
	}
	return known, false
}
