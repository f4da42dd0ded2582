package facts

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
)

var (
	length = NewQuestion[int]()
	text   = NewQuestion[string]()
)

func lengthOf(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return -1
}

func value() map[string]any {
	return map[string]any{"a": []any{map[string]any{"b": "c"}, "d", json.Number("1")}, "e": map[string]any{}, "f": nil}
}

func TestAnAnswerIsWorkedOutOnceForAKeptValueAndAllInIt(t *testing.T) {
	var s Store
	v := value()
	s.Keep(v)
	list := v["a"].([]any)
	for _, in := range []any{v, list, list[0]} {
		worked := 0
		for range 3 {
			got := length.Answer(s.Of(in), func() int { worked++; return lengthOf(in) })
			if got != lengthOf(in) {
				t.Errorf("%v: %d", in, got)
			}
		}
		if worked != 1 {
			t.Errorf("%v: it was worked out %d times", in, worked)
		}
		if _, known := text.Known(s.Of(in)); known {
			t.Errorf("%v: there is an answer to another question", in)
		}
		if got := text.Answer(s.Of(in), func() string { return "x" }); got != "x" {
			t.Errorf("another question gets %q", got)
		}
	}
}

func TestAValueThatIsNotKeptIsUnknown(t *testing.T) {
	var s Store
	v := value()
	s.Keep(v)
	list := v["a"].([]any)
	for name, in := range map[string]any{
		"an equal object": value(), "an equal list": value()["a"], "a text": "d", "nothing": nil, "an empty object": map[string]any{}, "an empty list": []any{},
		"an empty object that is in it": v["e"], "a part of a list": list[:2], "a part at the end": list[1:], "nothing of a list": list[:0],
	} {
		if s.Of(in) != nil || (Stores{&s, nil}).Of(in) != nil {
			t.Errorf("%s is known", name)
		}
		worked := 0
		for range 2 {
			length.Answer(s.Of(in), func() int { worked++; return 0 })
		}
		if worked != 2 {
			t.Errorf("%s: worked out %d times of 2", name, worked)
		}
	}
	if many := (Stores{maxStores: nil}); many.Of(v) != nil || append(many, &s).Of(v) != nil {
		t.Error("too many stores are asked")
	}
	if few := append(make(Stores, maxStores-1), &s); few.Of(v) == nil {
		t.Error("the last of many stores is not asked")
	}
	var none *Store
	none.Keep(v)
	if none.Of(v) != nil || (Stores{}).Of(v) != nil {
		t.Error("no store knows something")
	}
}

// What is kept is not mistaken for something that is later in its place in memory.
func TestAKeptValueStaysInItsPlace(t *testing.T) {
	var s Store
	for i := range 300 {
		v := map[string]any{"n": []any{fmt.Sprint(i)}}
		s.Keep(v)
		if got := text.Answer(s.Of(v), func() string { return fmt.Sprint(i) }); got != fmt.Sprint(i) {
			t.Fatalf("%d has the answer of %s", i, got)
		}
		if i%100 == 0 {
			other := make([]byte, 1<<20) // garbage
			other[i] = 1
		}
	}
}

func TestManyKeepAndAskAtOnce(t *testing.T) {
	var s Store
	values := make([]map[string]any, 50)
	for i := range values {
		values[i] = map[string]any{"n": []any{i}}
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range values {
				i = (i + worker*7) % len(values)
				s.Keep(values[i])
				if got := text.Answer(s.Of(values[i]["n"]), func() string { return fmt.Sprint(i) }); got != fmt.Sprint(i) {
					t.Errorf("%d has the answer of %s", i, got)
				}
			}
		})
	}
	all.Wait()
	for i, v := range values {
		if _, known := text.Known(s.Of(v["n"])); !known {
			t.Errorf("%d is not known", i)
		}
	}
}
