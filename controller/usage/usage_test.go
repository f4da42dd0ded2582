package usage

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// compile returns an entry of a template with the given lines of a spec.
func compile(t testing.TB, name, spec string) templates.Entry {
	manifest := fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: %s}\nspec:\n  inject: {metadata: {labels: {a: b}}}\n%s", name, spec)
	compiled := templatestest.Compile(t, manifest)
	return templates.Entry{Name: name, Template: compiled}
}

func inject(name, value string, labels map[string]string) templates.Namespace {
	ns := templates.Namespace{Name: name, Labels: labels}
	if value != "-" {
		ns.Annotations = map[string]string{"pillion.dev/inject": value}
	}
	return ns
}

func TestATemplateIsInForceWhereANamespaceNamesItAsksForAllOrIsSelected(t *testing.T) {
	blue := map[string]string{"team": "blue"}
	set := templates.NewSet([]templates.Entry{
		compile(t, "named", ""),
		compile(t, "default", "  injectByDefault: true\n"),
		compile(t, "matching", "  match: {namespaceSelector: {matchLabels: {team: blue}}}\n"),
		compile(t, "required", "  required: true\n  match: {namespaceSelector: {matchLabels: {team: blue}}}\n"),
		compile(t, "everywhere", "  match: {podSelector: {matchLabels: {app: web}}}\n"),
		compile(t, "suspended", "  suspend: true\n  match: {}\n"),
		compile(t, "blues", "  availableTo: {namespaceSelector: {matchLabels: {team: blue}}}\n"),
	})
	for _, c := range []struct {
		why string
		ns  templates.Namespace
		in  []string
	}{
		{"nothing asks", inject("shop", "-", nil), []string{"everywhere"}},
		{"names", inject("shop", "named, suspended", nil), []string{"everywhere", "named"}},
		{"true", inject("shop", "true", nil), []string{"default", "everywhere"}},
		{"selected", inject("shop", "-", blue), []string{"everywhere", "matching", "required"}},
		{"selected and named", inject("shop", "matching", blue), []string{"everywhere", "matching", "required"}},
		{"opted out", inject("shop", "false", blue), []string{"required"}},
		{"not available", inject("shop", "blues", nil), []string{"everywhere"}},
		{"available", inject("shop", "blues", blue), []string{"blues", "everywhere", "matching", "required"}},
		{"excluded", inject("kube-system", "named", blue), nil},
		{"disabled", inject("shop", "named", map[string]string{"pillion.dev/injection": "disabled"}), nil},
	} {
		u := Rules{Excluded: []string{"kube-system"}}.Count(set, slices.Values([]templates.Namespace{c.ns}))
		var in []string
		for _, name := range slices.Sorted(maps.Keys(u.In)) {
			if u.In[name] > 0 {
				in = append(in, name)
			}
		}
		if !slices.Equal(in, c.in) || len(u.In) != len(set.Entries()) {
			t.Errorf("%s: in force are %v, want %v", c.why, in, c.in)
		}
	}
}

func TestNamesThatAreNoTemplatesAreCountedWithinABound(t *testing.T) {
	set := templates.NewSet([]templates.Entry{compile(t, "named", "")})
	all := []templates.Namespace{inject("a", "named,typo", nil), inject("b", "typo", nil), inject("c", "", nil), inject("kube-system", "typo", nil)}
	u := Rules{Excluded: []string{"kube-system"}}.Count(set, slices.Values(all))
	if u.Named["named"] != 1 || len(u.Named) != 1 || u.Unknown["typo"] != 2 || len(u.Unknown) != 1 || u.Beyond != 0 {
		t.Errorf("%+v", u)
	}
	if got := (Rules{Excluded: []string{"kube-system"}}).Naming([]string{"typo", "other"}, slices.Values(all)); len(got) != 1 || !slices.Equal(got["typo"], []string{"a", "b"}) {
		t.Errorf("named by %v", got)
	}
	for i := range mostUnknown + 10 {
		all = append(all, inject(fmt.Sprint("n", i), fmt.Sprintf("typo,none-%d,other-%d", i, i), nil))
	}
	u = Rules{}.Count(set, slices.Values(all))
	if len(u.Unknown) != mostUnknown || u.Beyond == 0 || u.Unknown["typo"] != mostUnknown+13 {
		t.Errorf("%d names, %d namespaces beyond, %d times typo", len(u.Unknown), u.Beyond, u.Unknown["typo"])
	}
}

// The count of a template is what one asks namespace by namespace.
func TestACountIsTheSumOfItsNamespaces(t *testing.T) {
	set := templates.NewSet([]templates.Entry{
		compile(t, "one", "  injectByDefault: true\n"),
		compile(t, "two", "  match: {namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [a, b]}]}}\n"),
	})
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) templates.Namespace {
			labels := map[string]string{}
			if team := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "team"); team != "" {
				labels["team"] = team
			}
			return inject(rapid.SampledFrom([]string{"shop", "kube-system"}).Draw(t, "name"), rapid.SampledFrom([]string{"-", "true", "false", "one", "two", "one,two", "three"}).Draw(t, "ask"), labels)
		}), 0, 20).Draw(t, "namespaces")
		rules := Rules{Excluded: []string{"kube-system"}}
		sum := map[string]int{"one": 0, "two": 0}
		for _, ns := range all {
			for name, n := range rules.Count(set, slices.Values([]templates.Namespace{ns})).In {
				sum[name] += n
			}
		}
		if got := rules.Count(set, slices.Values(all)).In; !maps.Equal(got, sum) {
			t.Fatalf("%v, namespace by namespace %v", got, sum)
		}
	})
}
