package store

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/templates"
)

// FuzzClusterObjects reads any JSON object as a template of the cluster. The manifest has the object's name and spec,
// the same each time, and can be compiled. The cache finds it under the same key, and the object is not changed.
func FuzzClusterObjects(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"metadata":{"name":"a","generation":2,"resourceVersion":"7","managedFields":[{}]},"spec":{"inject":{}},"status":{"observedGeneration":2,"hash":"x","conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":1},"spec":null,"status":1}`, `{"metadata":{"name":"a","namespace":"b","ownerReferences":[{"kind":"K","name":"n"},1]},"spec":{"inject":{}}}`,
		`{"metadata":[],"status":{"conditions":{}}}`, `{"metadata":{"name":"a","generation":1.5},"spec":[]}`, `{"apiVersion":"x/v1","kind":"K","metadata":{"name":"\u0000"},"status":{"observedGeneration":"1"}}`,
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
		kept := NewObject(u)
		if again := NewObject(u); !reflect.DeepEqual(kept, again) {
			t.Fatalf("%+v, then %+v of the same object", kept, again)
		}
		key, err := cache.MetaNamespaceKeyFunc(kept)
		if want := kept.key(); err != nil || key != want {
			t.Fatalf("the key is %q (%v), want %q", key, err, want)
		}
		if after, _ := json.Marshal(object); string(after) != string(before) {
			t.Fatalf("the object became %s", after)
		}
		var manifest struct {
			Metadata struct{ Name string }
			Spec     any
		}
		if err := json.Unmarshal(kept.Manifest, &manifest); err != nil || manifest.Metadata.Name != u.GetName() || !reflect.DeepEqual(manifest.Spec, object["spec"]) {
			t.Fatalf("%s (%v) of %s", kept.Manifest, err, before)
		}
		if c := compileObject(kept, nil, templates.Options{}); (c.err == nil) != (c.template != nil) || (c.err == nil) != (c.reason == Compiled) {
			t.Fatalf("%s: %+v", before, c)
		}
	})
}
