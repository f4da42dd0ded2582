package workload

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/pillion-dev/pillion/internal/errtest"
)

const container = `{"containers":[{"name":"web"}]}`

func mark(p Pod) (map[string]any, error) {
	return map[string]any{"owner": p.Owner, "namespace": p.Namespace}, nil
}

func TestThePodOfEveryWorkloadIsFound(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"pod":         {`{"kind":"Pod","metadata":{"name":"a","namespace":"n"},"spec":` + container + `}`, `{"owner":"Pod/a","namespace":"n"}`},
		"deployment":  {`{"kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":2,"template":{"spec":` + container + `}}}`, `{"kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":2,"template":{"owner":"Deployment/a","namespace":""}}}`},
		"cron job":    {`{"kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":` + container + `}}}}}`, `{"kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"owner":"CronJob/","namespace":""}}}}}`},
		"custom":      {`{"kind":"Rollout","spec":{"template":{"spec":` + container + `}}}`, `{"kind":"Rollout","spec":{"template":{"owner":"Rollout/","namespace":""}}}`},
		"list":        {`{"kind":"List","items":[{"kind":"Pod","spec":{}},{"kind":"Service"}]}`, `{"kind":"List","items":[{"owner":"Pod/","namespace":""},{"kind":"Service"}]}`},
		"no objects":  {`{"kind":"PriorityList","items":["a",1]}`, `{"kind":"PriorityList","items":["a",1]}`},
		"service":     {`{"kind":"Service","spec":{"ports":[{"port":12345678901234567890}]}}`, `{"kind":"Service","spec":{"ports":[{"port":12345678901234567890}]}}`},
		"not a pod's": {`{"kind":"Certificate","spec":{"template":{"spec":{"x":1}}}}`, `{"kind":"Certificate","spec":{"template":{"spec":{"x":1}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := Parse([]byte(c.in))
			errtest.ExpectNone(t, err)
			before, _ := json.Marshal(documents[0].Object)
			got, _, err := Change(documents[0].Object, mark)
			errtest.ExpectNone(t, err)
			want, _ := Parse([]byte(c.want))
			if !reflect.DeepEqual(got, want[0].Object) {
				t.Errorf("got %v, want %v", got, want[0].Object)
			}
			if after, _ := json.Marshal(documents[0].Object); string(after) != string(before) {
				t.Errorf("the input was changed to %s", after)
			}
		})
	}
}

func TestFilesAreSplitIntoDocuments(t *testing.T) {
	for in, want := range map[string]int{
		"kind: Pod\n---\nkind: Service\n": 2, "---\n# nothing\n---\nkind: Pod\n": 1,
		`{"kind":"Pod"}{"kind":"Service"}`: 2, "{\"kind\":\"Pod\"}\n": 1, "{kind: Pod}": 1,
	} {
		if documents, err := Parse([]byte(in)); err != nil || len(documents) != want {
			t.Errorf("%q: %d documents (%v), want %d", in, len(documents), err, want)
		}
	}
	for _, in := range []string{"", "\n", "---\n---\n", "# only words\n"} {
		if _, err := Parse([]byte(in)); !errors.Is(err, ErrEmpty) {
			t.Errorf("%q: %v, want ErrEmpty", in, err)
		}
	}
	for _, in := range []string{"a: b: c", "- 1", "text", "a: 1\na: 2", "{"} {
		if _, err := Parse([]byte(in)); err == nil || errors.Is(err, ErrEmpty) {
			t.Errorf("%q is accepted: %v", in, err)
		}
	}
}

// FuzzParse holds that any bytes are documents or an error, the same each time; that a
// document, written again, is the same document; and that a change that changes nothing
// gives the object as it was.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"kind: Pod\n---\nkind: Service", `{"kind":"List","items":[{}]}`, "- a", "a: &x [*x]", "{", "0: 0\n0.:", "x: &x {1: a}\ny: {<<: *x, 0x1: b}", `{"kind":"Pod"}{"kind":"Service"}`,
		"kind: Pod\nspec: {containers: [{name: a}]}", "kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{}]}}}}}", "a: 12345678901234567890.10\nb: 0x10\nc: .5", "kind: PodList\nitems: [{kind: Pod, metadata: {labels: {a: true}}}]",
		"a: \"\\u0085\\ufeff\"", "a: '---'\nb: |-\n  x\n...\n", "%TAG ! x\n---\na: y", "a: <<\n<<: {b: 1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		documents, err := Parse(data)
		again, err2 := Parse(data)
		if !reflect.DeepEqual(documents, again) || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("%v, %v, and then %v, %v", documents, err, again, err2)
		}
		if err != nil {
			return
		}
		for _, d := range documents {
			text, err := YAML(d.Object)
			errtest.ExpectNone(t, err)
			read, err := Parse([]byte(text))
			if err != nil || len(read) != 1 || !reflect.DeepEqual(read[0].Object, d.Object) {
				t.Fatalf("%v\nis written as\n%s\nand read as %v (%v)", d.Object, text, read, err)
			}
			changed, pods, err := Change(d.Object, func(p Pod) (map[string]any, error) { return p.Object, nil })
			if err != nil {
				continue
			}
			if pods < 0 || !reflect.DeepEqual(changed, d.Object) {
				t.Fatalf("%v with %d pods became %v", d.Object, pods, changed)
			}
		}
	})
}
