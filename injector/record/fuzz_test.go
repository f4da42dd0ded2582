package record_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/record"
)

// fuzzedPod has something in each kind of place that a record can speak of.
const fuzzedPod = `{"metadata": {"labels": {"a": "b"}, "annotations": {}}, "spec": {"hostNetwork": true, "containers": [{"name": "web", "image": "x", "env": [{"name": "A", "value": "x"}, {"name": "B", "value": "1"}, {"name": "B", "value": "2"}, {"name": "B", "value": "3"}]}],
	"volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "a"}, {"key": "b"}]}}`

// FuzzRecord holds for any text of the annotation: it is read or refused with a short
// reason, the same each time; what is read, written and read again, is the same record, and
// gives the same base pod; and the pod is not changed.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[]", `{"v":1}`, `{"v":2}`, `{"v":1,"templates":{"t":"0a1b"},"pod":{"spec":{"containers":{"name=web":{"$added":true}},"volumes":{"name=v":"0a1b2c3d"}}}}`,
		`{"v":1,"pod":{"spec":{"hostNetwork":{"$was":[false]},"tolerations":{"$removed":[{"at":0,"value":{"key":"x"}}]}},"metadata":{"$made":true,"$was":[null]}}}`,
		`{"v":1,"pod":{"spec":{"containers":{"name=web":{"env":{"name=A":{"$behind":1,"$wrote":"0a1b2c3d"},"name=B":{"$behind":0}}}}}}}`, `{"v":1,"pod":{"spec":{"containers":{"name=web":{"env":{"name=B":{"$behind":2,"$was":[{"name":"B"}]}}}}}}}`,
		`{"v":1,"pod":{"$$x":{"$wrote":"a"},"$made":1}}`, `{"v":1,"pod":{"spec":{"$removed":[{"at":1e3}]}}}`, `{"v":1,"pod":{"metadata":{"annotations":{"key":{"$was":["forged"]}}}}}`, `{"v":1,"pod":[]} x`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return
		}
		pod := decoded(t, fuzzedPod)
		annotations := pod["metadata"].(map[string]any)["annotations"].(map[string]any)
		annotations["key"] = text
		before := fmt.Sprint(pod)
		r, err := record.Parse(pod, "key")
		if again, err2 := record.Parse(pod, "key"); !reflect.DeepEqual(r, again) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%+v, %v, and then %+v, %v", r, err, again, err2)
		}
		if err != nil {
			if !r.Empty() || len(err.Error()) > 1000 || !strings.HasPrefix(err.Error(), "annotation key: ") {
				t.Fatalf("%+v, %v", r, err)
			}
			return
		}
		base := r.Base(pod)
		annotations["key"] = r.Encode()
		again, err := record.Parse(pod, "key")
		if err != nil || again.Encode() != r.Encode() {
			t.Fatalf("%s is read as %s (%v)", r.Encode(), again.Encode(), err)
		}
		if got := again.Base(pod); !reflect.DeepEqual(got, base) {
			t.Fatalf("the base pod %v, and then %v", base, got)
		}
		metadata, ok := base["metadata"].(map[string]any)
		if left, _ := metadata["annotations"].(map[string]any); !ok && base["metadata"] != nil || left["key"] != nil {
			t.Fatalf("the base pod has the metadata %v", base["metadata"])
		}
		annotations["key"] = text
		if after := fmt.Sprint(pod); after != before {
			t.Fatalf("the pod became %s", after)
		}
	})
}

func decoded(t *testing.T, text string) map[string]any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
