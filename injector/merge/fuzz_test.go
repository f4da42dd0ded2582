package merge_test

import (
	"errors"
	"testing"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/templates/directive"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// FuzzMerge merges two fragments of any JSON into a pod of any JSON: it ends in a pod that obeys the laws of the
// record, or in an error that says whose fault it is. Required templates that are merged twice change nothing.
func FuzzMerge(f *testing.F) {
	for _, r := range rows {
		f.Add(string(podschema.Encode(fragmenttest.Decode(f, r.pod))), string(podschema.Encode(fragmenttest.Decode(f, withDirective(r.fragment, directive.Overwrite)))), `{"spec":{"containers":[{"name":"web","env":[{"name":"A","$append":",","value":"x"}]}]}}`, uint8(len(r.name)))
	}
	f.Add(`{"spec":{"containers":[{"name":5},null,{"name":"a","env":[{"name":"A"},{"name":"A"}]}]}}`, `{"spec":{"containers":[{"name":"a","env":[{"name":"A","$patch":"delete"}]}],"initContainers":[{"name":"s","image":"s","$position":{"after":"s"}}]}}`, `{"metadata":{"labels":{"$unset":["a"]}}}`, uint8(1))
	f.Add(`{"metadata":null,"spec":{"resources":{"limits":{"cpu":"x"}},"containers":[]}}`, `{"spec":{"volumes":[{"name":"v","$patch":"replace"}],"tolerations":[{"$patch":"replace"}]}}`, `{"spec":{"$unset":["volumes","containers"]}}`, uint8(6))
	policies := []string{"", directive.Deny, directive.KeepPod, directive.Overwrite}
	f.Fuzz(func(t *testing.T, podText, aText, bText string, flags uint8) {
		if len(podText)+len(aText)+len(bText) > 4<<10 {
			return
		}
		pod, err := podschema.DecodeObject([]byte(podText))
		if err != nil {
			return
		}
		var all []template
		for i, text := range []string{aText, bText} {
			object, err := podschema.DecodeObject([]byte(text))
			if err != nil || !fragmenttest.Fits(podschema.Pod(), fragmenttest.Of(podschema.Pod(), object).JSON()) {
				return // rendering gives no such fragment
			}
			all = append(all, template{Template: merge.Template{Name: string(rune('a' + i)), OnConflict: policies[int(flags>>(2*i))%4], Overridable: flags&16 > 0, KeepPodResources: flags&32 > 0, Required: flags&64 > 0}, object: object})
		}
		var conflict *merge.Conflict
		var fault *merge.FragmentError
		var malformed *merge.PodError
		merged, err := mergeAll(t, pod, all)
		if err != nil {
			if !errors.As(err, &conflict) && !errors.As(err, &fault) && !errors.As(err, &malformed) {
				t.Fatal(err)
			}
			return
		}
		if flags&64 == 0 && fragmenttest.Fits(podschema.Pod(), pod) {
			if _, err := inject(t, pod, all); err != nil {
				t.Fatal(err)
			}
			return
		}
		if flags&64 > 0 && fragmenttest.Fits(podschema.Pod(), pod) {
			again, err := mergeAll(t, merged.pod, all)
			if err != nil || string(podschema.Encode(again.pod)) != string(podschema.Encode(merged.pod)) {
				t.Fatalf("%v: merged again it is %s\nand was %s", err, podschema.Encode(again.pod), podschema.Encode(merged.pod))
			}
		}
	})
}
