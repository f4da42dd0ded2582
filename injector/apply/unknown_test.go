package apply

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates/podschema"
)

// nextMinor is a field that no version of Kubernetes has.
const nextMinor = "nextMinor"

// withUnknown puts the field into objects of the pod, each time with another value, and
// returns how many it put in. Maps, whose keys are the author's, get none.
func withUnknown(t *rapid.T, of *podschema.Type, value any) (added int) {
	switch v := value.(type) {
	case map[string]any:
		if name, _ := v["name"].(string); strings.HasPrefix(name, "kube-api-access-") {
			return 0 // where the token's volume is another one, its mount is left to the API server
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if child := of.Child(name); child != nil {
				added += withUnknown(t, child, v[name])
			}
		}
		if of.Kind() == podschema.Struct && some(t, "a later version's field") {
			v[nextMinor] = pick[any](t, "its value", json.Number("12345678901234567890"), json.Number("1e400"), "", "x", true, nil,
				yamlObject{"name": "a", "deep": []any{json.Number("-0")}}, []any{yamlObject{"name": "a"}, nil}, yamlObject{}, []any{})
			added++
		}
	case []any:
		for _, item := range v {
			if of.Elem() != nil {
				added += withUnknown(t, of.Elem(), item)
			}
		}
	}
	return added
}

// takeUnknown takes the field out of all objects, and returns how many there were.
func takeUnknown(value any) (taken int) {
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v[nextMinor]; ok {
			delete(v, nextMinor)
			taken++
		}
		for _, child := range v {
			taken += takeUnknown(child)
		}
	case []any:
		for _, item := range v {
			taken += takeUnknown(item)
		}
	}
	return taken
}

// Fields of a later version neither go nor change what templates do, as long as those leave
// the objects that hold them.
func TestFieldsOfALaterVersionChangeNothingElse(t *testing.T) {
	adding := []string{"init sidecar", "app sidecar", "two inits", "each shared", "each mount", "each lifecycle", "each port", "each security", "labels", "dns", "security", "requests", "account", "before own", "lists names"}
	injected, fields := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		pod := drawPod(rt, false)
		template := generated{name: "t0", hash: "v1", onConflict: KeepPod, pieces: rapid.SliceOfNDistinct(rapid.SampledFrom(adding), 1, 6, rapid.ID[string]).Draw(rt, "pieces")}
		later := normal(pod)
		added := withUnknown(rt, podschema.Pod(), later)
		want, wantErr := inject(t, pod, []generated{template})
		got, err := inject(t, later, []generated{template})
		if refused(t, wantErr) || refused(t, err) {
			if wantErr == nil || err == nil {
				rt.Fatalf("of %s: %v\nas a later version: %v", text(pod), wantErr, err)
			}
			return
		}
		injected, fields = injected+1, fields+added
		for _, edit := range got.Operations {
			if strings.Contains(text(edit), nextMinor) {
				rt.Fatalf("an edit %s", text(edit))
			}
		}
		back, changed := recordOf(t, got.Pod).Uninject(got.Pod)
		if wantSame(rt, "uninject(inject(p)) = p", back, unlabelled(later)); len(changed) > 0 {
			rt.Fatalf("nobody changed anything, and yet: %q", changed)
		}
		again, err := inject(t, got.Pod, []generated{template})
		if err != nil || len(again.Operations) > 0 {
			rt.Fatalf("inject(inject(p)) = inject(p): %v, operations %s", err, text(again.Operations))
		}
		bare := normal(without(t, got.Pod))
		if taken := takeUnknown(bare); taken != added {
			rt.Fatalf("%d fields of a later version were in the pod, and %d are in\n%s", added, taken, text(got.Pod))
		}
		wantSame(rt, "the same is injected", bare, without(t, want.Pod))
	})
	if injected < 20 || fields < 100 {
		t.Errorf("%d pods were injected, with %d fields: the law was not tested", injected, fields)
	}
}
