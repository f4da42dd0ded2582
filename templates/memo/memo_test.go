package memo

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
)

var (
	length = new(Key[int])
	text   = new(Key[string])
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

func TestWhatIsKnownIsWorkedOutOnceForAKeptValueAndAllInIt(t *testing.T) {
	var s Table
	v := value()
	s.Keep(v)
	list := v["a"].([]any)
	for _, in := range []any{v, list, list[0]} {
		worked := 0
		for range 3 {
			got := length.Do(s.Of(in), func() int { worked++; return lengthOf(in) })
			if got != lengthOf(in) {
				t.Errorf("%v: %d", in, got)
			}
		}
		if worked != 1 {
			t.Errorf("%v: it was worked out %d times", in, worked)
		}
		if _, known := text.Known(s.Of(in)); known {
			t.Errorf("%v: something is known by another key", in)
		}
		if got := text.Do(s.Of(in), func() string { return "x" }); got != "x" {
			t.Errorf("another key gets %q", got)
		}
	}
}

func TestAValueThatIsNotKeptIsUnknown(t *testing.T) {
	var s Table
	v := value()
	s.Keep(v)
	list := v["a"].([]any)
	for name, in := range map[string]any{
		"an equal object": value(), "an equal list": value()["a"], "a text": "d", "nothing": nil, "an empty object": map[string]any{}, "an empty list": []any{},
		"an empty object that is in it": v["e"], "a part of a list": list[:2], "a part at the end": list[1:], "nothing of a list": list[:0],
	} {
		if s.Of(in) != nil || (Tables{&s, nil}).Of(in) != nil {
			t.Errorf("%s is known", name)
		}
		worked := 0
		for range 2 {
			length.Do(s.Of(in), func() int { worked++; return 0 })
		}
		if worked != 2 {
			t.Errorf("%s: worked out %d times of 2", name, worked)
		}
	}
	if many := (Tables{maxTables: nil}); many.Of(v) != nil || append(many, &s).Of(v) != nil {
		t.Error("too many tables are asked")
	}
	if few := append(make(Tables, maxTables-1), &s); few.Of(v) == nil {
		t.Error("the last of many tables is not asked")
	}
	var none *Table
	none.Keep(v)
	if none.Of(v) != nil || (Tables{}).Of(v) != nil {
		t.Error("no table knows something")
	}
}

// What is kept is not mistaken for something that is later in its place in memory.
func TestAKeptValueStaysInItsPlace(t *testing.T) {
	var s Table
	for i := range 300 {
		v := map[string]any{"n": []any{fmt.Sprint(i)}}
		s.Keep(v)
		if got := text.Do(s.Of(v), func() string { return fmt.Sprint(i) }); got != fmt.Sprint(i) {
			t.Fatalf("%d has what is known of %s", i, got)
		}
		if i%100 == 0 {
			other := make([]byte, 1<<20) // garbage
			other[i] = 1
		}
	}
}

func TestManyKeepAndAskAtOnce(t *testing.T) {
	var s Table
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
				if got := text.Do(s.Of(values[i]["n"]), func() string { return fmt.Sprint(i) }); got != fmt.Sprint(i) {
					t.Errorf("%d has what is known of %s", i, got)
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
