package required_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/required"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/fragment"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// named are the own containers and volumes of a fragment.
type named struct{ *fragment.Node }

func (n named) has(list, name string) bool {
	it := n.Field("spec", list).Item("name=" + name)
	return it != nil && (list == "volumes" || it.Field("image") != nil)
}

func (n named) Container(list, name string) bool { return n.has(list, name) }
func (n named) Volume(name string) bool          { return n.has("volumes", name) }

// require compares a pod with two required templates of these fragments. The first one is rendered only if the
// pod has no container called off.
func require(t testing.TB, pod map[string]any, fragments ...*fragment.Node) (required.Result, error) {
	t.Helper()
	var all []required.Template
	var own []required.Own
	for i, f := range fragments {
		own = append(own, named{f})
		all = append(all, required.Template{Name: string(rune('a' + i)), Render: func(seen map[string]any) (required.Rendering, error) {
			if i == 0 && strings.Contains(string(podschema.Encode(seen["spec"])), `"name":"off"`) {
				return required.Rendering{}, nil
			}
			return required.Rendering{Fragment: f, Allowed: templates.Verify{}}, nil
		}})
	}
	before := string(podschema.Encode(pod))
	r, err := required.Required(t.Context(), merge.State{Base: pod, Pod: pod}, all, own)
	if after := string(podschema.Encode(pod)); after != before {
		t.Fatalf("the pod was changed to %s", after)
	}
	return r, err
}

// FuzzRequired compares a pod of any JSON with two required templates of any fragments. What they add makes a pod
// that is verified: required(required(p)) = required(p).
func FuzzRequired(f *testing.F) {
	const sidecar = `{"spec":{"initContainers":[{"name":"s","image":"s:1","restartPolicy":"Always","$position":"First","env":[{"name":"A","value":"1"},{"name":"B","value":"$(A)"}],"volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{}}]}}`
	const extension = `{"metadata":{"labels":{"a":"b"},"annotations":{"x":{"$append":",","value":"y"}}},"spec":{"hostNetwork":true,"containers":[{"name":"app","env":[{"name":"O","$prepend":":","value":"z"},{"name":"D","value":"/d"},{"name":"E","value":"$(D)"}],"volumeMounts":[{"name":"v","mountPath":"/v"}]}]}}`
	const removal = `{"spec":{"$unset":["hostname"],"tolerations":[{"$patch":"replace"}],"volumes":[{"name":"w","$patch":"delete"}],"resources":{"limits":{"cpu":1}},"containers":[{"name":"off","image":"off"}]}}`
	for _, pod := range []string{
		`{"spec":{"containers":[{"name":"app","image":"app"}]}}`,
		`{"metadata":{"labels":{"a":"c"}},"spec":{"hostname":"h","containers":[{"name":"app","image":"app","env":[{"name":"E","value":"$(D)"}],"volumeMounts":[{"name":"w","mountPath":"/v/x"}]},{"name":"s"}],"volumes":[{"name":"v","hostPath":{"path":"/"}},{"name":"w","emptyDir":{}}]}}`,
		`{"spec":{"initContainers":[{"name":"s","image":"s:1","restartPolicy":"Always","lifecycle":{"postStart":{"exec":{"command":["x"]}}}}],"containers":[{"name":"off","image":"x"},null,{"name":5},{"name":"app","env":[{"name":"A"},{"name":"A"},{}]}],"ephemeralContainers":[{"name":"e","volumeMounts":[{"name":"v"}]}]}}`,
		`{"metadata":null,"spec":{"resources":{"limits":{"cpu":"x"}},"containers":{},"volumes":[[]]}}`,
	} {
		f.Add(pod, sidecar, extension)
		f.Add(pod, extension, sidecar)
		f.Add(pod, removal, sidecar)
		f.Add(pod, sidecar, removal)
	}
	f.Fuzz(func(t *testing.T, podText, aText, bText string) {
		if len(podText)+len(aText)+len(bText) > 4<<10 {
			return
		}
		pod, err := podschema.DecodeObject([]byte(podText))
		if err != nil {
			return
		}
		var fragments []*fragment.Node
		for _, text := range []string{aText, bText} {
			object, err := podschema.DecodeObject([]byte(text))
			if err != nil {
				return
			}
			n := fragmenttest.Of(podschema.Pod(), object)
			if !fragmenttest.Fits(podschema.Pod(), n.JSON()) {
				return // rendering gives no such fragment
			}
			fragments = append(fragments, n)
		}
		var fault *merge.FragmentError
		var malformed *merge.PodError
		first, err := require(t, pod, fragments...)
		if err != nil {
			if !errors.As(err, &fault) && !errors.As(err, &malformed) {
				t.Fatal(err)
			}
			return
		}
		if len(first.Differences) > 0 || !fragmenttest.Fits(podschema.Pod(), pod) {
			return
		}
		if err := patch.Check(t.Context(), pod, first.Operations, first.Pod); err != nil {
			t.Fatal(err)
		}
		if len(first.Missing) == 0 && len(first.Operations) > 0 {
			t.Fatalf("it is verified, and changed by %s", patch.Marshal(first.Operations))
		}
		again, err := require(t, first.Pod, fragments...)
		if err != nil || len(again.Operations)+len(again.Missing)+len(again.Differences) > 0 {
			t.Fatalf("%v: required again it has\n%v\n%v\n%s\nand is\n%s", err, again.Differences, again.Missing, patch.Marshal(again.Operations), podschema.Encode(first.Pod))
		}
	})
}
