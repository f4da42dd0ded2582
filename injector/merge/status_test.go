package merge

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func withStatus(value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{statusKey: value}}, "spec": map[string]any{"containers": []any{}}}
}

func TestAMalformedStatusIsAbsentAndSaysWhy(t *testing.T) {
	for want, value := range map[string]any{
		"not text": 1, "decoding": "{", "something follows": `{"v":1} x`, "version 2": `{"v":2}`, "version 0": `{}`, "named twice": `{"v":1,"templates":[{"name":"a"},{"name":"a"}]}`,
		"no name": `{"v":1,"templates":[{}]}`, "more than": `{"v":1,"x":"` + strings.Repeat("x", MaxStatusBytes) + `"}`, "decoding it": `{"v":1,"templates":[{"name":"a","items":"x"}]}`,
	} {
		st, err := ParseStatus(withStatus(value), statusKey)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), statusKey) {
			t.Errorf("%.60v: error %v, want %q", value, err, want)
		}
		if len(st.Templates) != 0 {
			t.Errorf("%.60v: status %v", value, st)
		}
		if base := Base(withStatus(value), st); text(base["metadata"]) != `{"annotations":{}}` {
			t.Errorf("%.60v: the view still has it: %s", value, text(base))
		}
	}
}

func TestAPodWithoutAStatusHasAnEmptyOne(t *testing.T) {
	for _, pod := range []map[string]any{{}, {"metadata": nil}, {"metadata": "x"}, {"metadata": map[string]any{"annotations": []any{}}}} {
		st, err := ParseStatus(pod, statusKey)
		if err != nil || len(st.Templates) != 0 {
			t.Errorf("%v: %v, %v", pod, st, err)
		}
		if got := text(Base(pod, st)); got != text(pod) {
			t.Errorf("base %s of %s", got, text(pod))
		}
	}
}

func TestAMalformedStatusIsReplacedWhenSomethingIsInjected(t *testing.T) {
	pod := withStatus("nonsense")
	st, err := ParseStatus(pod, statusKey)
	if err == nil {
		t.Fatal("no error")
	}
	r, err := Merge(pod, st, nil, options)
	if err != nil || len(r.Edits) != 0 {
		t.Fatalf("nothing is injected, and yet: %v %s", err, text(r.Edits))
	}
	r, err = Merge(pod, st, []Fragment{fragment(t, "a", "spec: {hostNetwork: true}")}, options)
	if err != nil || status(t, r.Pod).Hash("a") != "v1" || applyEdits(t, text(pod), r.Edits) != text(r.Pod) {
		t.Fatalf("%v %s", err, text(r.Pod))
	}
}

func TestWhatAStatusSaysOfPlacesThatThePodDoesNotHaveIsLeftOut(t *testing.T) {
	pod := parse(t, `
metadata: {annotations: {}}
spec:
  nodeSelector: null
  containers: [{name: web, image: x, env: [{name: A}]}]
`)
	forged := Applied{Name: "z", Hash: "h",
		Overwrote: map[string]any{"/spec/containers/name=s": "x", "/spec/securityContext/runAsUser": "x", "/spec/hostname": "h", "/spec/containers/name=web/env/name=A": "x", "/spec/containers/name=web/env/name=B": "x"},
		Removed:   map[string][]Removed{"/spec/volumes": {{}}, "/spec/containers/name=s/env": {{}}, "/spec/containers/name=web/command": {{}}, "/metadata/labels": {{}}, "/spec/x": {{}}}}
	at(t, pod, "metadata", "annotations").(map[string]any)[statusKey] = encodeStatus(Status{Templates: []Applied{forged}})
	got := status(t, pod).Templates[0]
	if names := slices.Sorted(maps.Keys(got.Overwrote)); text(names) != `["/spec/containers/name=web/env/name=A","/spec/hostname"]` {
		t.Errorf("originals are kept for %s", text(names))
	}
	if names := slices.Sorted(maps.Keys(got.Removed)); text(names) != `["/spec/volumes"]` {
		t.Errorf("removed items are kept for %s", text(names))
	}
}

func TestTheViewRestoresAListsItemsWhereTheyWere(t *testing.T) {
	defaultToleration := "{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}"
	pod := parse(t, "metadata: {}\nspec: {tolerations: [{key: a}, "+defaultToleration+", {key: b}]}")
	r := lawful(t, pod, fragment(t, "t", "spec: {tolerations: [{operator: Exists}]}"))
	changed := normal(r.Pod)
	spec := changed["spec"].(map[string]any)
	spec["tolerations"] = append(spec["tolerations"].([]any), at(t, pod, "spec", "tolerations", "1"))
	if got := text(at(t, Base(changed, status(t, changed)), "spec", "tolerations")); strings.Count(got, "not-ready") != 1 {
		t.Fatalf("what somebody put back is there twice: %s", got)
	}
}

// FuzzStatus reads any status and merges into a pod that carries it: no panic,
// no removal, the same view after reading what is written, and a bounded size.
func FuzzStatus(f *testing.F) {
	f.Add(`{"v":1,"templates":[{"name":"t","hash":"v1","items":["/spec/containers/name=web"],"created":["/spec"],"overwrote":{"/spec/a":1},"removed":{"/spec/tolerations":[{"at":1,"value":{}}]}}]}`)
	f.Add(`{"v":1,"templates":[{"name":"t","hash":"v1","items":["/spec/volumes/name=v","/spec/containers/name=web/env/name=A"]},{"name":"u","overwrote":{"/spec/containers/name=web/env":null}}]}`)
	f.Add(`{"v":1,"templates":[{"name":"t","removed":{"/spec/initContainers":[{"at":-1,"value":null}],"/metadata/labels":[{"at":9}]}}]}`)
	f.Add(`{"v":1,"templates":null}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, value string) {
		pod := parse(t, `
metadata: {labels: {a: b}, annotations: {}}
spec:
  containers: [{name: web, image: x, env: [{name: A, value: x}], ports: [{containerPort: 80}]}]
  volumes: [{name: v, projected: {sources: [{secret: {name: s}}]}}]
  tolerations: [{key: a}]
`)
		pod["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey] = value
		before := text(pod)
		st, _ := ParseStatus(pod, statusKey)
		base := Base(pod, st)
		frag := fragment(t, "t", "metadata: {labels: {c: d}}\nspec: {initContainers: [{name: s, image: x}], volumes: [{name: v, projected: {sources: [{secret: {name: z}}]}}], tolerations: [{key: b}], containers: [{name: web, env: [{name: B}]}]}")
		r, err := Merge(pod, st, []Fragment{frag}, options)
		if text(pod) != before {
			t.Fatalf("the pod was changed: %s", text(pod))
		}
		if _, ok := base["kind"]; ok {
			t.Fatalf("the view has what the pod has not: %s", text(base))
		}
		if err != nil {
			return
		}
		for _, e := range r.Edits {
			if e.Op == "remove" {
				t.Fatalf("a status removes %v", e.Path)
			}
		}
		if applyEdits(t, before, r.Edits) != text(r.Pod) {
			t.Fatalf("the edits %s do not give %s", text(r.Edits), text(r.Pod))
		}
		st2, err := ParseStatus(r.Pod, statusKey)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		again, err := Merge(r.Pod, st2, []Fragment{frag}, options)
		if err != nil || len(again.Edits) > 0 {
			t.Fatalf("not idempotent: %v, %s\nof %s", err, text(again.Edits), text(r.Pod))
		}
	})
}
