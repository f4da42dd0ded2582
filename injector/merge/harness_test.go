package merge_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/injector/apply"
	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// template is a template and what it renders to, as its author writes it.
type template struct {
	merge.Template
	fragment string
	object   map[string]any // the fragment, already decoded
}

// named returns templates with these fragments, called a, b and so on.
func named(fragments ...string) []template {
	all := make([]template, len(fragments))
	for i, f := range fragments {
		all[i] = template{Template: merge.Template{Name: string(rune('a' + i))}, fragment: f}
	}
	return all
}

// outcome is what templates make of a pod, one after the other.
type outcome struct {
	pod      map[string]any
	warnings []string
	kept     []merge.PodValue
	writers  *merge.Writers
	wanted   *apply.Target
}

// mergeAll applies templates in order. Its error is a merge's, or the first conflict.
func mergeAll(t testing.TB, pod map[string]any, all []template) (outcome, error) {
	t.Helper()
	o := outcome{pod: pod, writers: &merge.Writers{}, wanted: &apply.Target{Pod: pod}}
	before := string(podschema.Encode(pod))
	for _, one := range all {
		if one.object == nil {
			one.object = fragmenttest.Decode(t, one.fragment)
		}
		r, err := merge.Merge(t.Context(), merge.State{Base: pod, Pod: o.pod, Writers: o.writers}, fragmenttest.Of(podschema.Pod(), one.object), one.Template)
		if err != nil {
			return o, err
		}
		if len(r.Conflicts) > 0 {
			return o, r.Conflicts[0]
		}
		o.pod, o.kept = r.Pod, append(o.kept, r.PodValues...)
		for _, k := range r.PodValues {
			if text := k.Warning(); text != "" {
				o.warnings = append(o.warnings, text)
			}
		}
		for _, w := range r.Warnings {
			o.warnings = append(o.warnings, w.String())
		}
		o.writers.Add(one.Name, r.Writes)
		o.wanted.Pod = r.Pod
		o.wanted.Add(one.Name, r.Writes)
	}
	if after := string(podschema.Encode(pod)); after != before {
		t.Errorf("the pod was changed to %s", after)
	}
	return o, nil
}

// inject applies templates in order, and brings the pod up to date with them. It holds the laws of the record:
// the base pod is the pod that came, and a second call changes nothing.
func inject(t testing.TB, pod map[string]any, all []template) (outcome, error) {
	t.Helper()
	o, err := mergeAll(t, pod, all)
	if err != nil {
		return o, err
	}
	first := update(t, pod, record.New(), o)
	rec, err := record.Parse(first.Pod)
	if err != nil {
		t.Fatal(err)
	}
	base := rec.Base(first.Pod)
	if diff := cmp.Diff(pod, base); diff != "" {
		t.Fatalf("the base pod is not the pod that came (-came +base)\n%s\n%s", diff, rec.Encode())
	}
	again, err := mergeAll(t, base, all)
	if err != nil {
		t.Fatalf("a second call: %v", err)
	}
	if second := update(t, first.Pod, rec, again); len(second.Operations) > 0 {
		t.Fatalf("a second call: %s", patch.Marshal(second.Operations))
	}
	return o, nil
}

// update brings a pod up to date.
func update(t testing.TB, pod map[string]any, rec record.Record, o outcome) apply.Result {
	t.Helper()
	r, err := apply.Apply(t.Context(), pod, rec, o.wanted)
	if err == nil {
		err = r.Mark(rec.Base(pod), []string{"a"})
	}
	if err == nil {
		err = patch.Check(t.Context(), pod, r.Operations, r.Pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// at returns a part of a pod as JSON.
func at(pod map[string]any, path ...string) string {
	return string(podschema.Encode(podschema.LookUp(pod, path)))
}

// web returns a pod with a container web that has these fields, and a spec with others.
func web(container, spec string) string {
	return "metadata: {name: p}\nspec: {containers: [{name: web, image: 'nginx:1'" + container + "}]" + spec + "}"
}

// extend returns a fragment that extends the container web.
func extend(fields string) string { return "spec: {containers: [{name: web, " + fields + "}]}" }
