package facts

import (
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
)

// Store has values that never change, and what is known about them. Its values are found
// again by where they are in memory, so a copy of a value is another value. A Store is for any
// number of goroutines. A nil Store is an empty one.
type Store struct {
	// values has them by their addresses. The map is replaced, never changed.
	values atomic.Pointer[map[uintptr]*Fact]
	adding sync.Mutex
}

// Fact is what is known about one value of a [Store].
type Fact struct {
	// value is kept, so that no other value can be in its place in memory.
	value   any
	answers [questions]atomic.Pointer[any]
}

// Keep adds a value, with all objects and lists that are in it. Nobody may change any of them
// from then on.
func (s *Store) Keep(v any) {
	if s == nil || address(v) == 0 || s.Of(v) != nil {
		return
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	values := map[uintptr]*Fact{}
	if old := s.values.Load(); old != nil {
		maps.Copy(values, *old)
	}
	add(values, v)
	s.values.Store(&values)
}

// add adds a value and those in it.
func add(values map[uintptr]*Fact, v any) {
	where := address(v)
	if where == 0 || values[where] != nil {
		return
	}
	values[where] = &Fact{value: v}
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			add(values, value)
		}
	case []any:
		for _, item := range v {
			add(values, item)
		}
	}
}

// Of returns what is known about a value, and nil if the store does not have it.
func (s *Store) Of(v any) *Fact {
	if s == nil {
		return nil
	}
	where := address(v)
	values := s.values.Load()
	if where == 0 || values == nil {
		return nil
	}
	f := (*values)[where]
	if f == nil {
		return nil
	}
	// A list may begin where a longer one does.
	if list, ok := v.([]any); ok && len(f.value.([]any)) != len(list) {
		return nil
	}
	return f
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

// Stores are several stores.
type Stores []*Store

// Keep adds a value to the first store, as [Store.Keep] does.
func (s Stores) Keep(v any) {
	if len(s) > 0 {
		s[0].Keep(v)
	}
}

// maxStores is how many stores are asked for a value. Sixteen templates have so many. To ask
// those of more for each value of a pod would cost more than it saves.
const maxStores = 32

// Of returns what is known about a value, and nil if none of the stores has it, or if they
// are too many to ask.
func (s Stores) Of(v any) *Fact {
	if len(s) > maxStores {
		return nil
	}
	for _, store := range s {
		if f := store.Of(v); f != nil {
			return f
		}
	}
	return nil
}

// questions is how many there may be.
const questions = 8

// Question is what one package asks about values. Its answer depends on the value alone.
type Question[A any] int

var asked atomic.Int32

// NewQuestion returns a question of its own. It is called when a program begins.
func NewQuestion[A any]() Question[A] {
	n := asked.Add(1)
	if n > questions {
		panic("facts: there are more questions than there is room for")
	}
	return Question[A](n - 1)
}

// Answer returns the answer for a fact's value, which is worked out if it is not known. If
// there is no fact, it is worked out each time.
func (q Question[A]) Answer(f *Fact, work func() A) A {
	if f == nil {
		return work()
	}
	if known := f.answers[q].Load(); known != nil {
		return (*known).(A)
	}
	var answer any = work()
	// Whoever was first has the answer that all share.
	if !f.answers[q].CompareAndSwap(nil, &answer) {
		answer = *f.answers[q].Load()
	}
	return answer.(A)
}

// Known returns the answer if it has been worked out before.
func (q Question[A]) Known(f *Fact) (answer A, ok bool) {
	if f == nil {
		return answer, false
	}
	known := f.answers[q].Load()
	if known == nil {
		return answer, false
	}
	return (*known).(A), true
}
