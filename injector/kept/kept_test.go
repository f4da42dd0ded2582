package kept

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

const key = "pillion.dev/required"

// compile returns the entry of a template of that spec.
func compile(t *testing.T, name, spec string) templates.Entry {
	t.Helper()
	manifest := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ")
	template, _, err := templates.Compile([]byte(manifest), templates.Options{})
	return templates.Entry{Name: name, Template: template, Err: err}
}

// required is a set with one template that is required for a team.
func required(t *testing.T, team string) *templates.Set {
	t.Helper()
	e := compile(t, "audit", "required: true\nmatch: {namespaceSelector: {matchLabels: {team: "+team+"}}}\ninject: {metadata: {labels: {a: b}}}")
	if e.Err != nil {
		t.Fatal(e.Err)
	}
	return templates.NewSet([]templates.Entry{e})
}

func namespace(name string, labels ...string) templates.Namespace {
	ns := templates.Namespace{Name: name, Labels: map[string]string{}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		ns.Labels[k] = v
	}
	return ns
}

func TestTheLabelIsWhatTheRequiredTemplatesSelect(t *testing.T) {
	payments := New([]string{"kube-system"}, Required("")).By(required(t, "payments"))
	none := New(nil, Required("")).By(templates.NewSet(nil))
	other := New(nil, Required("side.example.com")).By(required(t, "payments"))
	for why, c := range map[string]struct {
		by   Judgement
		ns   templates.Namespace
		want []Change
	}{
		"selected":                         {payments, namespace("shop", "team=payments"), []Change{{key, "true"}}},
		"selected and labelled":            {payments, namespace("shop", "team=payments", key+"=true"), nil},
		"selected, with another value":     {payments, namespace("shop", "team=payments", key+"=false"), []Change{{key, "true"}}},
		"selected, with an empty value":    {payments, namespace("shop", "team=payments", key+"="), []Change{{key, "true"}}},
		"not selected":                     {payments, namespace("shop", "team=web"), nil},
		"not selected, labelled":           {payments, namespace("shop", "team=web", key+"=true"), []Change{{key, ""}}},
		"not selected, with an empty one":  {payments, namespace("shop", key+"="), []Change{{key, ""}}},
		"no labels at all":                 {payments, templates.Namespace{Name: "shop"}, nil},
		"excluded":                         {payments, namespace("kube-system", "team=payments"), nil},
		"excluded, labelled":               {payments, namespace("kube-system", key+"=true"), nil},
		"no templates":                     {none, namespace("shop", key+"=true"), []Change{{key, ""}}},
		"another release's prefix":         {other, namespace("shop", "team=payments"), []Change{{"side.example.com/required", "true"}}},
		"another release's label is there": {other, namespace("shop", "team=web", key+"=true"), nil},
	} {
		if got := c.by.Differences(c.ns); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", why, got, c.want)
		}
	}
}

func TestAWritePutsTheLabelOnAndTakesItOffWhereItEndsTheNeed(t *testing.T) {
	payments := New([]string{"kube-system"}, Required("")).By(required(t, "payments"))
	with := func(labels ...string) *templates.Namespace { return new(namespace("shop", labels...)) }
	for why, c := range map[string]struct {
		old, ns *templates.Namespace
		want    []Change
	}{
		"created, selected":                      {nil, with("team=payments"), []Change{{key, "true"}}},
		"created, not selected":                  {nil, with("team=web"), nil},
		"created from a manifest with the label": {nil, with("team=web", key+"=true"), []Change{{key, ""}}},
		"now selected":                           {with("team=web"), with("team=payments"), []Change{{key, "true"}}},
		"selected no longer":                     {with("team=payments", key+"=true"), with(key + "=true"), []Change{{key, ""}}},
		"the label taken off":                    {with("team=payments", key+"=true"), with("team=payments"), []Change{{key, "true"}}},
		"the label set to something else":        {with("team=payments", key+"=true"), with("team=payments", key+"=no"), []Change{{key, "true"}}},
		"the label put on by hand":               {with("team=web"), with("team=web", key+"=true"), nil},
		"the keeper takes it off":                {with("team=web", key+"=true"), with("team=web"), nil},
		"another replica's label":                {with("team=web", key+"=true"), with("team=web", "a=b", key+"=true"), nil},
		"nothing relevant":                       {with("team=payments", key+"=true"), with("team=payments", "a=b", key+"=true"), nil},
		"excluded":                               {nil, new(namespace("kube-system", "team=payments")), nil},
	} {
		if got := payments.InWrite(c.old, *c.ns); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", why, got, c.want)
		}
	}
}

// apply returns the namespace after the changes.
func apply(ns templates.Namespace, changes []Change) templates.Namespace {
	ns.Labels = maps.Clone(ns.Labels)
	for _, c := range changes {
		if c.TakesOff() {
			delete(ns.Labels, c.Key)
		} else {
			ns.Labels[c.Key] = c.Value
		}
	}
	return ns
}

// random returns a set of templates that select by a few labels, and namespaces with them.
func random(t *testing.T, r *rand.Rand) (*templates.Set, func() templates.Namespace) {
	t.Helper()
	var entries []templates.Entry
	for i := range 1 + r.IntN(3) {
		spec := fmt.Sprintf("required: %t\nsuspend: %t\n", r.IntN(3) > 0, r.IntN(4) == 0)
		if r.IntN(3) == 0 {
			spec += "ordr: 1\n" // a mistake
		}
		if r.IntN(5) == 0 {
			spec += "availableTo: {namespaceSelector: {matchLabels: {b: '1'}}}\n"
		}
		spec += fmt.Sprintf("match: {namespaceSelector: {matchLabels: {%c: '%d'}}}\ninject: {spec: {containers: [{name: side-%d, image: 'x:1'}]}}", 'a'+rune(r.IntN(3)), r.IntN(2), i)
		entries = append(entries, compile(t, fmt.Sprint("t", i), spec))
	}
	return templates.NewSet(entries), func() templates.Namespace {
		ns := namespace("shop")
		for _, l := range []string{"a", "b", "c"} {
			if n := r.IntN(3); n < 2 {
				ns.Labels[l] = fmt.Sprint(n)
			}
		}
		switch r.IntN(4) {
		case 0:
			ns.Labels[key] = "true"
		case 1:
			ns.Labels[key] = "no"
		}
		return ns
	}
}

// Where Pillion wants no label, verifying could refuse nothing: no pod is missed.
func TestWithoutTheLabelThereIsNothingToVerify(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pipeline := injector.NewPipeline(injector.Config{})
	refused := 0
	for range 150 {
		set, next := random(t, r)
		judgement := New(nil, Required("")).By(set)
		ns := next()
		ns = apply(ns, judgement.Differences(ns))
		pod, err := injector.DecodePod([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"app","image":"nginx"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		out, err := pipeline.Verify(t.Context(), injector.Request{Operation: "CREATE", Pod: pod, Namespace: ns, Templates: set})
		if err != nil {
			t.Fatal(err)
		}
		if out.Allowed {
			continue
		}
		refused++
		if ns.Labels[key] != "true" {
			t.Fatalf("a namespace with the labels %v has no label, and its pods are refused: %s", ns.Labels, out.Message)
		}
	}
	if refused < 15 {
		t.Errorf("%d pods were refused, so that this test shows little", refused)
	}
}

// One change settles a namespace, and a write never ends with less than is needed.
func TestAChangeSettlesANamespace(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		set, next := random(t, r)
		judgement := New(nil, Required("")).By(set)
		old, ns := next(), next()
		if left := judgement.Differences(apply(ns, judgement.Differences(ns))); len(left) != 0 {
			t.Fatalf("after its changes a namespace with the labels %v still wants %v", ns.Labels, left)
		}
		for _, before := range []*templates.Namespace{nil, &old} {
			after := apply(ns, judgement.InWrite(before, ns))
			if again := judgement.InWrite(before, after); len(again) != 0 {
				t.Fatalf("a write that was corrected is corrected again: %v", again)
			}
			for _, c := range judgement.Differences(after) {
				if !c.TakesOff() {
					t.Fatalf("after a write the namespace with the labels %v lacks %v", after.Labels, c)
				}
			}
		}
	}
}

// A label may be set by hand, and then be wanted as it is.
func TestLabelsAreKeptEachByItsOwnRule(t *testing.T) {
	byHand := Label{Key: "pillion.dev/mode", Wanted: func(*templates.Set) func(templates.Namespace) string {
		return func(ns templates.Namespace) string {
			if mode := ns.Labels["pillion.dev/mode"]; mode != "" {
				return mode
			}
			return ns.Annotations["mode"]
		}
	}}
	both := New(nil, Required(""), byHand)
	if got := both.Keys(); !slices.Equal(got, []string{key, "pillion.dev/mode"}) {
		t.Errorf("the keys are %q", got)
	}
	judgement := both.By(required(t, "payments"))
	asks := namespace("shop", "team=payments")
	asks.Annotations = map[string]string{"mode": "on"}
	if got := judgement.Differences(asks); !slices.Equal(got, []Change{{key, "true"}, {"pillion.dev/mode", "on"}}) {
		t.Errorf("both are wanted: %v", got)
	}
	if got := judgement.InWrite(&asks, namespace("shop", key+"=true", "pillion.dev/mode=off")); !slices.Equal(got, []Change{{key, ""}}) {
		t.Errorf("one is wanted no longer, the other is set by hand: %v", got)
	}
}
