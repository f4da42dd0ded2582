package main

import "testing"

func TestFieldsAreCutWhereverTheyAre(t *testing.T) {
	const schema = `[{"kind":1,"fields":{"a":1,"b":2}},{"kind":0},{"kind":1,"fields":{"b":1}}]`
	got, err := without([]byte(schema), []string{"b"})
	if want := `[{"fields":{"a":1},"kind":1},{"kind":0},{"fields":{},"kind":1}]`; err != nil || string(got) != want {
		t.Errorf("it is %s (%v), want %s", got, err, want)
	}
	if got, err := without([]byte(schema), []string{"b", "c"}); err == nil {
		t.Errorf("a field that there is none of is cut: %s", got)
	}
}
