package apply

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/injector/record/recordtest"
)

func withStatus(value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{statusKey: value}}, "spec": map[string]any{"containers": []any{}}}
}

func TestAMalformedRecordCountsAsNoneAndSaysWhy(t *testing.T) {
	for want, value := range map[string]any{
		"not text": 1, "decoding": "{", "more after": `{"v":1} x`, "version 2": `{"v":2}`, "no version": `{}`, "a digest or an object": `{"v":1,"pod":[]}`,
		"no name": `{"v":1,"templates":{"":"x"}}`, "no such field": `{"v":1,"pod":{"spec":{"$item":true}}}`, "without its index": `{"v":1,"pod":{"spec":{"$removed":[{}]}}}`, "more than": `{"v":1,"x":"` + strings.Repeat("x", record.MaxBytes) + `"}`, "its templates": `{"v":1,"templates":["a"]}`, "no hash": `{"v":1,"templates":{"a":1}}`,
	} {
		rec, err := record.Parse(withStatus(value), statusKey)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), statusKey) {
			t.Errorf("%.60v: error %v, want %q", value, err, want)
		}
		if !rec.Empty() {
			t.Errorf("%.60v: record %v", value, rec)
		}
		if base := rec.Base(withStatus(value)); text(base["metadata"]) != `{}` {
			t.Errorf("%.60v: the base pod still has the annotation: %s", value, text(base))
		}
	}
}

func TestAPodWithoutTheStatusAnnotationHasAnEmptyRecord(t *testing.T) {
	for _, pod := range []map[string]any{{}, {"metadata": nil}, {"metadata": "x"}, {"metadata": map[string]any{"annotations": []any{}}}} {
		rec, err := record.Parse(pod, statusKey)
		if err != nil || !rec.Empty() {
			t.Errorf("%v: %v, %v", pod, rec, err)
		}
		if got := text(rec.Base(pod)); got != text(pod) {
			t.Errorf("base %s of %s", got, text(pod))
		}
	}
}

func TestARecordsOriginalsAreDroppedWhereThePodHasNoRoomForThem(t *testing.T) {
	pod := parse(t, `
metadata: {annotations: {}}
spec:
  nodeSelector: null
  containers: [{name: web, image: x, env: [{name: A}]}]
`)
	forged := recordtest.Forged{Templates: map[string]string{"z": "h"},
		Was:     map[string]any{"/spec/containers/name=s": "x", "/spec/securityContext/runAsUser": "x", "/spec/hostname": "h", "/spec/containers/name=web/env/name=A": "x", "/spec/containers/name=web/env/name=B": "x"},
		Removed: map[string][]record.Removed{"/spec/volumes": {{Value: map[string]any{"name": "v"}}}, "/spec/initContainers": {{}}, "/spec/containers/name=s/env": {{}}, "/spec/containers/name=web/command": {{}}, "/metadata/labels": {{}}, "/spec/x": {{}}}}
	at(t, pod, "metadata", "annotations").(map[string]any)[statusKey] = forged.Text()
	var was, removed []string
	var walk func(p *record.Place, path string)
	walk = func(p *record.Place, path string) {
		if len(p.Was) > 0 {
			was = append(was, path)
		}
		if len(p.Removed) > 0 {
			removed = append(removed, path)
		}
		for segment, child := range p.In {
			walk(child, path+"/"+segment)
		}
	}
	walk(recordOf(t, pod).Root, "")
	slices.Sort(was)
	if text(was) != `["/spec/containers/name=web/env/name=A","/spec/hostname"]` {
		t.Errorf("originals are kept for %s", text(was))
	}
	if text(removed) != `["/spec/volumes"]` {
		t.Errorf("removed items are kept for %s", text(removed))
	}
}

func TestAnItemThatSomebodyPutBackIsNotTwiceInTheBasePod(t *testing.T) {
	defaultToleration := "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}"
	pod := parse(t, "metadata: {}\nspec: {tolerations: [{key: a}, "+defaultToleration+", {key: b}]}")
	r := lawful(t, pod, fragment(t, "t", "spec: {tolerations: [{operator: Exists}]}"))
	changed := normal(r.Pod)
	spec := changed["spec"].(map[string]any)
	spec["tolerations"] = append(spec["tolerations"].([]any), at(t, pod, "spec", "tolerations", "1"))
	if got := text(at(t, recordOf(t, changed).Base(changed), "spec", "tolerations")); strings.Count(got, "not-ready") != 1 {
		t.Fatalf("what somebody put back is there twice: %s", got)
	}
}

// FuzzStatus reads any text of a status annotation, and injects into a pod with it: no
// panic, no removal, and a second call changes nothing.
//
//fuzz:slow injects twice, and applies the operations as an API server does
func FuzzStatus(f *testing.F) {
	for _, forged := range []recordtest.Forged{
		{Templates: map[string]string{"t": "v1"}, Added: []string{"/spec/containers/name=web"}, Made: []string{"/spec"}, Was: map[string]any{"/spec/a": 1},
			Removed: map[string][]record.Removed{"/spec/tolerations": {{At: 1, Value: map[string]any{}}}}},
		{Templates: map[string]string{"t": "v1", "u": "h"}, Added: []string{"/spec/volumes/name=v", "/spec/containers/name=web/env/name=A"}, Was: map[string]any{"/spec/containers/name=web/env": nil}},
		{Removed: map[string][]record.Removed{"/spec/initContainers": {{At: -1}}, "/metadata/labels": {{At: 9}}}},
		{Added: []string{"/spec/initContainers/name=s"}, Wrote: map[string]string{"/spec/volumes/name=v": "00000000"}},
	} {
		f.Add(forged.Text())
	}
	f.Add(`{"v":1,"templates":null}`)
	f.Add(`[]`)
	f.Add(`{"v":1,"pod":{"a":[],"b":1}}`)
	original := text(parse(f, `
metadata: {labels: {a: b}, annotations: {}}
spec:
  containers: [{name: web, image: x, env: [{name: A, value: x}], ports: [{containerPort: 80}]}]
  volumes: [{name: v, projected: {sources: [{secret: {name: s}}]}}]
  tolerations: [{key: a}]
`))
	frag := fragment(f, "t", "metadata: {labels: {c: d}}\nspec: {initContainers: [{name: s, image: x}], volumes: [{name: v, projected: {sources: [{secret: {name: z}}]}}], tolerations: [{key: b}], containers: [{name: web, env: [{name: B}]}]}")
	f.Fuzz(func(t *testing.T, value string) {
		if len(value) > 4<<10 {
			return
		}
		pod := decode(t, []byte(original))
		pod["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey] = value
		before := text(pod)
		rec, unreadable := record.Parse(pod, statusKey)
		if _, again := record.Parse(pod, statusKey); fmt.Sprint(unreadable) != fmt.Sprint(again) {
			t.Fatalf("%v, and then %v", unreadable, again)
		}
		if unreadable != nil && len(unreadable.Error()) > 1000 {
			t.Fatalf("an error of %d bytes", len(unreadable.Error()))
		}
		base := rec.Base(pod)
		r, err := injectWith(pod, rec, []Fragment{frag})
		if text(pod) != before {
			t.Fatalf("the pod was changed: %s", text(pod))
		}
		if _, ok := base["kind"]; ok {
			t.Fatalf("the base pod has a field that the pod does not have: %s", text(base))
		}
		if err != nil {
			return
		}
		for _, e := range r.Operations {
			if e.Op() == patch.Remove {
				t.Fatalf("a record removes %s", e.Pointer())
			}
		}
		if applyOperations(t, before, r.Operations) != text(r.Pod) {
			t.Fatalf("the operations %s do not give %s", text(r.Operations), text(r.Pod))
		}
		rec2, err := record.Parse(r.Pod, statusKey)
		if err != nil {
			t.Fatalf("the written record cannot be read: %v", err)
		}
		again, err := injectWith(r.Pod, rec2, []Fragment{frag})
		if err != nil || len(again.Operations) > 0 {
			t.Fatalf("not idempotent: %v, %s\nof %s", err, text(again.Operations), text(r.Pod))
		}
	})
}
