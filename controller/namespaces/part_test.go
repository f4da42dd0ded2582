package namespaces

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// names are the keys that templates and namespaces of these tests have.
var names = []string{"team", "tier", "zone", "env"}

// drawSet draws templates that select namespaces by labels, ask for more of them, and read them in
// expressions.
func drawSet(t *rapid.T, label string) *templates.Set {
	name := rapid.SampledFrom(names)
	requirement := func(at string) string {
		key, operator := name.Draw(t, at+" key"), rapid.SampledFrom([]string{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, at+" operator")
		if operator == "In" || operator == "NotIn" {
			return fmt.Sprintf("namespaceSelector: {matchExpressions: [{key: %s, operator: %s, values: [a, b]}]}", key, operator)
		}
		return fmt.Sprintf("namespaceSelector: {matchExpressions: [{key: %s, operator: %s}]}", key, operator)
	}
	expression := func(at string) string {
		text := rapid.SampledFrom([]string{
			"('%[1]s' in namespaceObject.metadata.labels ? namespaceObject.metadata.labels['%[1]s'] : '-')",
			"(has(namespaceObject.metadata.annotations.%[1]s) ? namespaceObject.metadata.annotations.%[1]s : '-')", "namespaceObject.metadata.labels.?%s.orValue('-')", "namespaceObject.metadata.labels[?'%s'].orValue('-')",
			"namespaceObject.metadata.annotations[?'%s'].orValue('-')", "string('%s' in namespaceObject.metadata.labels)", "string(has(namespaceObject.metadata.annotations.%s))",
			"namespaceObject.metadata.name + '%s'", "namespaceObject['metadata']['labels'][?'%s'].orValue('-')", "string(size(namespaceObject.metadata.labels)) + '%s'",
			"namespaceObject.metadata.labels.filter(k, k != '%s').join(',')", "['%s'].map(k, namespaceObject.metadata.labels[?k].orValue('-')).join(',')",
			"namespaceObject.metadata.annotations[?namespaceObject.metadata.labels[?'%s'].orValue('env')].orValue('-')",
		}).Draw(t, at)
		return fmt.Sprintf(text, name.Draw(t, at+" key"))
	}
	var entries []templates.Entry
	for n := range rapid.IntRange(0, 3).Draw(t, label) {
		at := fmt.Sprint(label, " ", n)
		spec := ""
		if rapid.Bool().Draw(t, at+" matches") {
			spec += "match: {" + requirement(at+" match") + "}\n"
			if rapid.Bool().Draw(t, at+" required") {
				spec += "required: true\n"
			}
		}
		if rapid.Bool().Draw(t, at+" is for some") {
			spec += "availableTo: {" + requirement(at+" availableTo") + "}\n"
		}
		if rapid.Bool().Draw(t, at+" has a condition") {
			spec += "matchConditions: [{name: c, expression: \"" + expression(at+" condition") + " != 'b'\"}]\n"
		}
		if rapid.Bool().Draw(t, at+" has a variable") {
			spec += "variables: [{name: v, expression: \"" + expression(at+" variable") + "\"}]\n"
		}
		spec += "parameters: [{name: size, type: string, default: s}]\n"
		value := "params.size"
		if rapid.Bool().Draw(t, at+" reads") {
			value += " + " + expression(at+" value")
		}
		if strings.Contains(spec, "variables:") {
			value += " + variables.v"
		}
		spec += "inject: {metadata: {annotations: {\"x/y" + fmt.Sprint(n) + "\": \"${" + value + "}\"}}}"
		manifest := fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: t%d}\nspec:\n  %s", n, strings.ReplaceAll(spec, "\n", "\n  "))
		compiled, _, err := templates.Compile([]byte(manifest), templates.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, manifest)
		}
		entries = append(entries, templates.Entry{Name: fmt.Sprint("t", n), Template: compiled})
	}
	return templates.NewSet(entries)
}

// drawNamespace draws a namespace, which is often large.
func drawNamespace(t *rapid.T) *metav1.PartialObjectMetadata {
	values := rapid.MapOfN(rapid.SampledFrom(names), rapid.SampledFrom([]string{"a", "b", "c"}), 0, 4)
	ns := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: values.Draw(t, "labels"), Annotations: values.Draw(t, "annotations")}}
	maybe := func(m map[string]string, key string, values ...string) {
		if value := rapid.SampledFrom(append(values, "")).Draw(t, key); value != "" {
			m[key] = value
		}
	}
	maybe(ns.Labels, "pillion.dev/injection", "enabled", "enforced", "disabled")
	maybe(ns.Labels, "pillion.dev/required", "true")
	maybe(ns.Annotations, "pillion.dev/inject", "t0", "t1, t0", "true", "false", "!!", "t0,"+strings.Repeat(" ", mostKept)+"t1", strings.Repeat("x", mostKept))
	maybe(ns.Annotations, "t0.pillion.dev/size", "m", strings.Repeat("m", 100), strings.Repeat("l", mostKept))
	maybe(ns.Annotations, "t1.pillion.dev/sise", "m")
	for n := range rapid.SampledFrom([]int{0, 30, 30}).Draw(t, "padding") {
		ns.Labels[fmt.Sprint("pad-", n)] = strings.Repeat("x", 63)
		ns.Annotations[fmt.Sprint("pad-", n)] = strings.Repeat("x", 300)
	}
	return ns
}

func TestDecisionsByWhatTheCacheKeepsAreThoseByTheWholeNamespace(t *testing.T) {
	pipeline := injector.NewPipeline(injector.Config{})
	rules, proven := labels.Rules{Enforcement: labels.EnforceAsked}, true
	var small, served, notServed, judged, notJudged int
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawSet(t, "templates before"), drawSet(t, "templates now")
		if rapid.IntRange(0, 3).Draw(t, "nothing has changed") == 0 {
			before = after
		}
		object := drawNamespace(t)
		k := &keeping{prefix: templates.DefaultPrefix, reads: before.NamespaceReads, left: math.MaxInt64, sizes: map[string]int64{}}
		c := k.keep(object)
		whole := templates.Namespace{Name: object.Name, Labels: object.Labels, Annotations: object.Annotations}

		known := c.labelled(c.namespace())
		switch {
		case labels.Knows(after, known):
			judged++
			if got, want := rules.Changes(after, proven, known), rules.Changes(after, proven, labels.Namespace{Namespace: whole}); !reflect.DeepEqual(got, want) {
				t.Fatalf("labels to change: %+v, want %+v, by %+v", got, want, known)
			}
			if got, want := after.Selecting(known.Labels), after.Selecting(whole.Labels); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
				t.Fatalf("selecting are %v, want %v", got, want)
			}
		case before == after:
			t.Fatalf("nothing has changed, and the namespace is not known: %+v", known)
		default:
			notJudged++
		}
		if got, want := (usage.Rules{}).Asks(known.Namespace), (usage.Rules{}).Asks(whole); !reflect.DeepEqual(got, want) {
			t.Fatalf("it asks for %+v, want %+v", got, want)
		}

		if c.part == nil {
			small++
		}
		if !c.part.serves(after.NamespaceReads()) {
			notServed++
			if before == after && !c.part.bare && !after.NamespaceReads().Whole() {
				t.Fatalf("nothing has changed, and the namespace would be read live: %+v", known)
			}
			return
		}
		served++
		for _, ask := range []string{"", "t0", "t1,t2", "true", "false"} {
			pod := map[string]any{"metadata": map[string]any{"name": "p"}, "spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "x"}}}}
			if ask != "" {
				pod["metadata"].(map[string]any)["annotations"] = map[string]any{"pillion.dev/inject": ask}
			}
			inject := func(ns templates.Namespace) injector.Outcome {
				out, err := pipeline.Inject(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: after, Explain: true})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			got, want := inject(known.Namespace), inject(whole)
			if got.Message != want.Message || !reflect.DeepEqual(got.Pod, want.Pod) || !slices.Equal(got.Warnings, want.Warnings) || !reflect.DeepEqual(got.Steps, want.Steps) {
				t.Fatalf("a pod that asks %q: %s, %v\nwant %s, %v", ask, got.Message, got.Pod, want.Message, want.Pod)
			}
		}
	})
	t.Logf("%d namespaces are small; %d serve, %d do not; %d are judged, %d are not", small, served, notServed, judged, notJudged)
	if min(small, served-small, notServed, judged-small, notJudged) == 0 {
		t.Error("some cases are never met")
	}
}

func TestALargeNamespaceKeepsNoMoreThanItsPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, object := drawSet(t, "templates"), drawNamespace(t)
		k := &keeping{prefix: templates.DefaultPrefix, reads: set.NamespaceReads, left: int64(rapid.IntRange(0, 2*mostKept).Draw(t, "room")), sizes: map[string]int64{}}
		c := k.keep(object)
		// A bare part has a few labels, and 64 names at most.
		if most := mostKept + 16*len(names); len(c.metadata) > 2*most {
			t.Fatalf("%d bytes are kept", len(c.metadata))
		}
		if k.left < 0 {
			t.Fatalf("%d bytes are left", k.left)
		}
	})
}

func TestRoomIsGivenBack(t *testing.T) {
	set := templates.NewSet(nil)
	k := &keeping{prefix: templates.DefaultPrefix, reads: set.NamespaceReads, left: 2000, sizes: map[string]int64{}}
	of := func(name string, bytes int) *cached {
		return k.keep(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": strings.Repeat("x", bytes-1)}}})
	}
	for n := range 10 { // the same namespace again and again
		if c := of("a", 1000+n); c.part != nil {
			t.Fatalf("version %d finds no room", n)
		}
	}
	if c := of("b", 1500); c.part == nil || maps.Equal(c.namespace().Labels, map[string]string{}) == false {
		t.Errorf("there is no room for this one: %+v", c.namespace())
	}
	k.gone("a")
	if c := of("b", 1500); c.part != nil {
		t.Error("the room of one that is gone is not given back")
	}
	k.gone("b")
	k.gone("c")
	if k.left != 2000 || len(k.sizes) != 0 {
		t.Errorf("%d bytes are left, and %v are kept", k.left, k.sizes)
	}
}
