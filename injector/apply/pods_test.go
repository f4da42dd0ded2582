package apply

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	evanphx "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
)

const statusKey = "pillion.dev/status"

// object reads YAML into what the merge works on.
func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	return decode(t, b)
}

func decode(t testing.TB, b []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decoding %s: %v", b, err)
	}
	return v
}

func text(v any) string { return string(encode(v)) }

// fragment is a template of that name at version v1.
func fragment(t testing.TB, name, object string) Fragment {
	t.Helper()
	return Fragment{Template: name, Hash: "v1", Object: parse(t, object)}
}

// recordOf reads the pod's record, which must be readable.
func recordOf(t testing.TB, pod map[string]any) record.Record {
	t.Helper()
	rec, err := record.Parse(pod, statusKey)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// mergeInto injects into the pod, and checks the laws of every call: the pod is not
// changed, the operations give the intended pod by kube-apiserver's library, and the
// same input gives the same bytes.
func mergeInto(t testing.TB, pod map[string]any, frags ...Fragment) (injected, error) {
	t.Helper()
	before := text(pod)
	var wants []string
	for _, f := range frags {
		wants = append(wants, text(f.Object))
	}
	rec := recordOf(t, pod)
	r, err := injectWith(pod, rec, frags)
	again, err2 := injectWith(pod, rec, frags)
	if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() || text(r.Pod) != text(again.Pod) || text(r.Operations) != text(again.Operations) {
		t.Fatalf("the same input gave different results:\n%s %v\n%s %v", text(r), err, text(again), err2)
	}
	if text(pod) != before {
		t.Fatalf("the pod was changed\nfrom %s\nto   %s", before, text(pod))
	}
	for i, f := range frags {
		if text(f.Object) != wants[i] {
			t.Fatalf("the fragment was changed\nfrom %s\nto   %s", wants[i], text(f.Object))
		}
	}
	if err != nil {
		return r, err
	}
	if got := applyOperations(t, before, r.Operations); got != text(r.Pod) {
		t.Fatalf("the operations %s\ngive     %s\nintended %s", text(r.Operations), got, text(r.Pod))
	}
	return r, nil
}

func mustMerge(t testing.TB, pod map[string]any, frags ...Fragment) injected {
	t.Helper()
	r, err := mergeInto(t, pod, frags...)
	if err != nil {
		t.Fatalf("merging into %s: %v", text(pod), err)
	}
	return r
}

// applyOperations applies operations with the library that kube-apiserver uses.
func applyOperations(t testing.TB, doc string, operations []patch.Operation) string {
	t.Helper()
	p, err := evanphx.DecodePatch(patch.Marshal(operations))
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Apply([]byte(doc))
	if err != nil {
		t.Fatalf("the API server's library refuses %s: %v", text(operations), err)
	}
	return text(decode(t, b))
}

// lawful injects into a pod without a record, and checks two laws: the base pod of
// the result is the pod, and a second call changes nothing.
func lawful(t testing.TB, pod map[string]any, frags ...Fragment) injected {
	t.Helper()
	r := mustMerge(t, pod, frags...)
	if base := recordOf(t, r.Pod).Base(r.Pod); text(base) != text(pod) {
		t.Fatalf("base(inject(p)) is not p\np    %s\nbase %s\nfrom %s", text(pod), text(base), text(r.Pod))
	}
	if again := mustMerge(t, r.Pod, frags...); len(again.Operations) != 0 || text(again.Pod) != text(r.Pod) {
		t.Fatalf("injecting again changes the pod: %s", text(again.Operations))
	}
	return r
}

// without returns the pod without its status annotation, and without
// annotations if it was the only one.
func without(t testing.TB, pod map[string]any) map[string]any {
	t.Helper()
	c := decode(t, encode(record.LabelKeysOf(statusKey).Without(pod)))
	metadata, _ := c["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, statusKey)
	for _, section := range sections {
		if entries, _ := metadata[section].(map[string]any); len(entries) == 0 {
			delete(metadata, section)
		}
	}
	return c
}

// unlabelled returns the pod without labels of Pillion's, as a pod without a record counts.
func unlabelled(pod map[string]any) map[string]any {
	return record.New(statusKey).Base(pod)
}

func wantPod(t testing.TB, got map[string]any, want string) {
	t.Helper()
	if g, w := text(without(t, got)), text(parse(t, want)); g != w {
		t.Fatalf("got  %s\nwant %s", g, w)
	}
}

// at follows a path of fields and indexes.
func at(t testing.TB, v any, path ...string) any {
	t.Helper()
	for _, step := range path {
		switch w := v.(type) {
		case map[string]any:
			v = w[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(w) {
				t.Fatalf("no item %s in %s", step, text(w))
			}
			v = w[i]
		default:
			t.Fatalf("no %s in %s", step, text(v))
		}
	}
	return v
}

func names(t testing.TB, list any) string {
	t.Helper()
	var all []string
	items, _ := list.([]any)
	for _, item := range items {
		name, _ := item.(map[string]any)["name"].(string)
		all = append(all, name)
	}
	return strings.Join(all, " ")
}
