package live

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FuzzClusterObjects holds for any JSON object as a SidecarTemplate of the cluster: what is
// kept of it gives the same manifest as the object itself, with its name and its spec, and
// the object is not changed.
func FuzzClusterObjects(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"metadata":{"name":"a","generation":2,"resourceVersion":"7","managedFields":[{}]},"spec":{"inject":{}},"status":{"observedGeneration":2,"hash":"x","conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":1},"spec":null,"status":1}`, `{"metadata":[],"status":{"conditions":{}}}`, `{"metadata":{"name":"a","generation":1.5},"spec":[]}`, `{"apiVersion":"x/v1","kind":"K","metadata":{"name":"\u0000"},"status":{"observedGeneration":"1"}}`,
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
		kept, err := onlyNeeded(u)
		if err != nil {
			t.Fatal(err)
		}
		whole, slim := units([]any{u}), units([]any{kept})
		if !reflect.DeepEqual(whole, slim) || len(whole.Units) != 1 || whole.Err != nil {
			t.Fatalf("%+v of the object, %+v of what is kept", whole, slim)
		}
		if after, _ := json.Marshal(object); string(after) != string(before) {
			t.Fatalf("the object became %s", after)
		}
		one := whole.Units[0]
		var manifest struct {
			Metadata struct{ Name string }
			Spec     any
		}
		if err := json.Unmarshal(one.Data, &manifest); err != nil || one.Err != nil || manifest.Metadata.Name != u.GetName() || one.Object.Name != u.GetName() || !reflect.DeepEqual(manifest.Spec, object["spec"]) {
			t.Fatalf("%s (%v) of %s", one.Data, err, before)
		}
	})
}
