package store

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// FuzzClusterObjects holds for any JSON object as a SidecarTemplate of the cluster: what is
// kept of it gives a manifest with its name and its spec, the same each time, the cache
// finds it under the same key, and the object is not changed.
func FuzzClusterObjects(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"metadata":{"name":"a","generation":2,"resourceVersion":"7","managedFields":[{}]},"spec":{"inject":{}},"status":{"observedGeneration":2,"hash":"x","conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":1},"spec":null,"status":1}`, `{"metadata":{"name":"a","labels":{"pillion.dev/mirror":"true"},"annotations":{"pillion.dev/source":"x"},"ownerReferences":[{"kind":"K","name":"n"},1]},"spec":{"inject":{}}}`,
		`{"metadata":{"labels":{"pillion.dev/mirror":"false"}}}`, `{"metadata":[],"status":{"conditions":{}}}`, `{"metadata":{"name":"a","generation":1.5},"spec":[]}`, `{"apiVersion":"x/v1","kind":"K","metadata":{"name":"\u0000"},"status":{"observedGeneration":"1"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if len(text) > 4<<10 || json.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		u := &unstructured.Unstructured{Object: object}
		before, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		kept, again := onlyNeeded(u, "pillion.dev"), onlyNeeded(u, "pillion.dev")
		if kept.(*cachedObject).mirror != nil {
			if r := units([]any{kept}, nil); u.GetLabels()["pillion.dev/mirror"] != "true" || len(r.Units) != 0 || len(r.Mirrors) != 1 || r.Mirrors[0].Name != u.GetName() || !reflect.DeepEqual(kept, again) {
				t.Fatalf("%+v of the mirror %s", r, before)
			}
			return
		}
		got, same := units([]any{kept}, nil), units([]any{again}, nil)
		if !reflect.DeepEqual(got, same) || len(got.Units) != 1 || got.Err != nil {
			t.Fatalf("%+v, then %+v of the same object", got, same)
		}
		key, err := cache.MetaNamespaceKeyFunc(kept)
		if err != nil || key != u.GetName() {
			t.Fatalf("the key is %q (%v), want %q", key, err, u.GetName())
		}
		if after, _ := json.Marshal(object); string(after) != string(before) {
			t.Fatalf("the object became %s", after)
		}
		one := got.Units[0]
		var manifest struct {
			Metadata struct{ Name string }
			Spec     any
		}
		if err := json.Unmarshal(one.Data, &manifest); err != nil || one.Err != nil || manifest.Metadata.Name != u.GetName() || one.Object.Name != u.GetName() || !reflect.DeepEqual(manifest.Spec, object["spec"]) {
			t.Fatalf("%s (%v) of %s", one.Data, err, before)
		}
	})
}
