package apply

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	plan "github.com/pillion-dev/pillion/injector/merge"
)

// FuzzMerge merges any two fragments into any pod: no panic, an error of a known
// kind, and otherwise the laws.
func FuzzMerge(f *testing.F) {
	f.Add(`{"spec":{"containers":[{"name":"web","image":"x","env":[{"name":"A"}]}]}}`, `{"spec":{"containers":[{"name":"web","env":[{"name":"A","$patch":"delete"}]}]}}`, `{"spec":{"initContainers":[{"name":"s","image":"x","$position":{"before":"i"}}]}}`)
	f.Add(`{"metadata":{"labels":{"a":"b"}},"spec":{"securityContext":null}}`, `{"metadata":{"labels":{"$unset":["a"]}}}`, `{"spec":{"securityContext":{"$patch":"replace","runAsUser":1}}}`)
	f.Add(`{"spec":{"volumes":[{"name":"v","projected":{"sources":[{"secret":{}}]}}]}}`, `{"spec":{"volumes":[{"name":"v","projected":{"sources":[{"configMap":{}}]}}]}}`, `{"spec":{"volumes":[{"$patch":"replace"}]}}`)
	f.Add(`{"spec":{"resources":{"limits":{"cpu":1},"requests":{"cpu":1}},"containers":[{"name":"a","livenessProbe":{"exec":{}}}]}}`, `{"spec":{"containers":[{"name":"a","livenessProbe":{"$unset":["exec"],"httpGet":{"port":1}}}]}}`, `{"spec":{"resources":{"requests":{"cpu":2}}}}`)
	f.Add(`{"metadata":{"annotations":{"a":"1"}},"spec":{"containers":[{"name":"web","env":[{"name":"J","valueFrom":{"fieldRef":{}}},{"name":"K","value":"v"}]}]}}`,
		`{"metadata":{"annotations":{"a":{"$append":",","value":"2"}}},"spec":{"containers":[{"name":"web","env":[{"name":"J","$append":" ","value":"x"},{"name":"K","$append":"::","value":"x"}]}]}}`,
		`{"metadata":{"annotations":{"a":{"$append":",","value":"3"}}},"spec":{"containers":[{"name":"web","env":[{"name":"J","$append":" ","value":"y"},{"name":"K","value":"z"},{"name":"L","$append":"x","value":""}]}]}}`)
	f.Add(`{"spec":{"hostname":"a","containers":[{"name":"web","env":[{"name":"J","value":"a"},{"name":"J","value":"b"}]}]}}`, `{"spec":{"hostname":{"$onConflict":"Overwrite","value":"b"},"containers":[{"name":"web","env":[{"name":"J","$append":" ","value":"x"},{"name":"J","$append":",","value":"y"}]}]}}`, `{"spec":{"hostname":{"$onConflict":"KeepPod","value":"c"}}}`)
	f.Fuzz(func(t *testing.T, pod, a, b string) {
		var objects [3]map[string]any
		for i, text := range []string{pod, a, b} {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if d.Decode(&objects[i]) != nil {
				return
			}
		}
		if metadata := objectOf(objects[0]["metadata"]); objectOf(metadata["annotations"])[statusKey] != nil {
			return // FuzzStatus does this
		}
		frags := []Fragment{{Template: "a", Hash: "v1", Object: objects[1], OnConflict: KeepPod}, {Template: "b", Hash: "v1", Object: objects[2], OnConflict: Overwrite, Overridable: true}}
		first, err := mergeInto(t, objects[0], frags...)
		if err != nil {
			var conflict *ConflictError
			var fragment *FragmentError
			var malformed *PodError
			var resources *plan.ResourcesError
			if !errors.As(err, &resources) && !errors.As(err, &conflict) && !errors.As(err, &fragment) && !errors.As(err, &malformed) {
				t.Fatalf("an error of no known kind: %v", err)
			}
			return
		}
		again, err := mergeInto(t, first.Pod, frags...)
		if err != nil || len(again.Operations) > 0 {
			t.Fatalf("not idempotent: %v, %s\nof %s", err, text(again.Operations), text(first.Pod))
		}
		if base := recordOf(t, first.Pod).Base(first.Pod); text(base) != text(objects[0]) && objects[0] != nil {
			t.Fatalf("base %s\nof   %s\nfrom %s", text(base), text(objects[0]), text(first.Pod))
		}
	})
}
