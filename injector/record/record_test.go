package record_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

const statusKey = "pillion.dev/status"

// withStatus returns a pod of YAML with a record.
func withStatus(t testing.TB, pod, status string) map[string]any {
	t.Helper()
	object := fragmenttest.Decode(t, pod)
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[statusKey] = status
	return object
}

// saying returns a record with these entries.
func saying(entries string) string { return `{"v":1,"templates":{"t":"h"},"set":{` + entries + `}}` }

func TestAMalformedRecordCountsAsNoneAndSaysWhyShortlyAndAlwaysTheSame(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf(`"spec.a%d": %d`, i, i))
	}
	for text, want := range map[string]string{
		`{`: "decoding it", `{"v":1} x`: "decoding it", `{"v":2}`: "its version is 2; this build reads version 1", `{}`: "no version", `[]`: "decoding it",
		`{"v":1,"templates":{"":"x"}}`: "no name", `{"v":1,"templates":{"a":1}}`: "no hash", `{"v":1,"templates":["a"]}`: "its templates are", `{"v":1,"set":[]}`: "its set is",
		saying(`"spec.a":7`): "an object is expected", saying(`"":{}`): "", saying(`"spec..a":{}`): "", saying(`"spec[a":{}`): "", saying(`"spec.a":{"gone":[[1]]}`): "", saying(`"spec.a":{"gone":[["x",{}]]}`): "", saying(`"spec.a":{"gone":[[-1,{}]]}`): "",
		saying(strings.Join(many, ",")): "an object is expected", saying(`"` + strings.Repeat("a", 100_000) + `":1`): "", saying(`"spec.a":[` + strings.Repeat("1,", 30_000) + `1]`): "an object is expected",
		`{"v":1,"x":"` + strings.Repeat("x", record.MaxBytes) + `"}`: "at most 196608 are allowed",
	} {
		pod := withStatus(t, "{spec: {containers: []}}", text)
		rec, first := record.Parse(pod)
		if first == nil || !strings.Contains(first.Error(), want) || !strings.Contains(first.Error(), statusKey) || len(first.Error()) > 1000 || !rec.Empty() {
			t.Errorf("%.60s: %.300v, want %q", text, first, want)
			continue
		}
		for range 20 {
			if _, again := record.Parse(pod); again == nil || again.Error() != first.Error() {
				t.Fatalf("%.60s: %.200v, and then %.200v", text, first, again)
			}
		}
		if base := rec.Base(pod); strings.Contains(string(podschema.Encode(base)), statusKey) {
			t.Errorf("%.60s: the base pod still has the annotation: %s", text, podschema.Encode(base))
		}
	}
	pod := withStatus(t, "{}", "")
	pod["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey] = 7
	if _, err := record.Parse(pod); err == nil || !strings.Contains(err.Error(), "text is expected") {
		t.Error(err)
	}
}

// A key can be any text: a label's, a variable's.
func TestWhatIsEncodedIsDecoded(t *testing.T) {
	values := []any{nil, "x", true, json.Number("12345678901234567890"), json.Number("1.10"), []any{}, map[string]any{"sum": "x"}}
	rapid.Check(t, func(t *rapid.T) {
		r := record.New()
		for range rapid.IntRange(0, 5).Draw(t, "entries") {
			path := (*podschema.Path)(nil).Field("spec")
			for range rapid.IntRange(0, 3).Draw(t, "depth") {
				if rapid.Bool().Draw(t, "key") {
					path = path.Key(rapid.OneOf(rapid.SampledFrom([]string{"name=a~b]c", "a.b/c", "~0", "~1", "]", "[", ".", "={}", "containerPort=80,protocol=TCP", "\u2028", "name="}), rapid.StringN(1, 8, -1)).Draw(t, "segment"))
				} else {
					path = path.Field(rapid.SampledFrom([]string{"spec", "a", "env"}).Draw(t, "field"))
				}
			}
			e := record.Entry{Sum: rapid.SampledFrom([]string{"", "0a1b"}).Draw(t, "sum"), Created: rapid.Bool().Draw(t, "made"), Had: rapid.Bool().Draw(t, "had")}
			if e.Had {
				e.Was = rapid.SampledFrom(values).Draw(t, "was")
			}
			for range rapid.IntRange(0, 2).Draw(t, "gone") {
				e.RemovedItems = append(e.RemovedItems, record.RemovedItem{At: rapid.IntRange(0, 99).Draw(t, "at"), Item: rapid.SampledFrom(values).Draw(t, "item")})
			}
			r.Set[path.String()] = e
		}
		r.Templates["t"] = "h"
		text := r.Encode()
		again, err := record.Parse(map[string]any{"metadata": map[string]any{"annotations": map[string]any{statusKey: text}}})
		if err != nil || again.Encode() != text || !reflect.DeepEqual(again.Set, r.Set) {
			t.Fatalf("%v\n%s\nof %s", err, again.Encode(), text)
		}
	})
}

// FuzzRecord reads any text of a status annotation of any pod: it ends in an error that is short, or in a record that
// is written as it is read; and the base pod has no record.
func FuzzRecord(f *testing.F) {
	const pod = `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"x"},{"name":"A"}]}],"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"s"}}]}}],"tolerations":[{"key":"a"}]}}`
	for _, entries := range []string{
		`"spec.containers[name=web]":{"sum":"0"},"spec":{"made":true},"spec.a":{"was":1},"spec.tolerations[0a]":{"gone":[[1,{}]]}`, `"spec.containers[name=web].env[name=A]":{"was":null,"gone":[[0,7],[9,{"name":"A"}]]}`,
		`"metadata.labels[a]":{"sum":"0","was":[]},"metadata.labels":{"made":true,"was":null},"metadata":{"made":true}`, `"spec.volumes[name=v].projected.sources[0]":{"sum":""}`, `"spec.containers":{"was":null}`,
	} {
		f.Add(pod, saying(entries))
	}
	f.Add(`{"metadata":null}`, `{"v":1,"templates":null}`)
	f.Fuzz(func(t *testing.T, podText, status string) {
		pod, err := podschema.DecodeObject([]byte(podText))
		if err != nil || len(podText)+len(status) > 4<<10 {
			return
		}
		metadata, ok := pod["metadata"].(map[string]any)
		if !ok {
			metadata = map[string]any{}
			pod["metadata"] = metadata
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations[statusKey] = status
		} else {
			metadata["annotations"] = map[string]any{statusKey: status}
		}
		before := string(podschema.Encode(pod))
		rec, err := record.Parse(pod)
		if err != nil && (len(err.Error()) > 1000 || !rec.Empty()) {
			t.Fatalf("%d bytes: %.200v, %v", len(err.Error()), err, rec)
		}
		base := rec.Base(pod)
		rec.Uninject(pod)
		if string(podschema.Encode(pod)) != before {
			t.Fatalf("the pod was changed to %s", podschema.Encode(pod))
		}
		if again, _ := record.Parse(base); !again.Empty() {
			t.Fatalf("the base pod has a record: %s", podschema.Encode(base))
		}
		if err == nil {
			text := rec.Encode()
			again, err := record.Parse(map[string]any{"metadata": map[string]any{"annotations": map[string]any{statusKey: text}}})
			if err != nil && len(text) <= record.MaxBytes || err == nil && again.Encode() != text {
				t.Fatalf("%v: %s is read as %s", err, text, again.Encode())
			}
		}
	})
}
