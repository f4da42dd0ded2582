package templates

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// orderedEntry compiles an empty template with an order, of the cluster or of a namespace.
func orderedEntry(t *testing.T, namespace, name string, order int) Entry {
	t.Helper()
	kind := "kind: SidecarTemplate"
	if namespace != "" {
		kind = "kind: NamespacedSidecarTemplate"
	}
	text := strings.NewReplacer("name: t", "name: "+name, "kind: SidecarTemplate", kind).Replace(string(manifestOf(fmt.Sprintf("order: %d\ninject: {}", order))))
	return Entry{Name: name, Namespace: namespace, Template: compiledWith(t, []byte(text), Options{})}
}

func namesOf(entries []Entry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func TestSetsAreOrdered(t *testing.T) {
	s := NewSet([]Entry{
		{Name: "broken-b"}, orderedEntry(t, "", "c", 1), {Name: "a", Err: errors.New("x")}, orderedEntry(t, "", "b", 1),
		{Name: "broken-a"}, orderedEntry(t, "", "z", -1), orderedEntry(t, "", "a", 5),
	})
	if got, want := namesOf(s.All()), "z b c a broken-a broken-b"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if e, ok := s.Get("a"); !ok || e.Template == nil || e.Err != nil {
		t.Errorf("of two entries the last counts; got %+v", e)
	}
	if _, ok := s.Get("none"); ok {
		t.Error("there is an entry that nobody gave")
	}
}

func TestTheTemplatesOfANamespaceStandAmongThoseOfTheCluster(t *testing.T) {
	s := NewSet([]Entry{
		orderedEntry(t, "", "m", 0), orderedEntry(t, "", "z", 10), {Name: "broken"},
		orderedEntry(t, "shop", "a", 0), orderedEntry(t, "shop", "last", 20), orderedEntry(t, "shop", "z", -5), orderedEntry(t, "pay", "p", 0), orderedEntry(t, "shop", "o", 10),
	})
	for namespace, want := range map[string]string{"shop": "a m o z last broken", "pay": "m p z broken", "other": "m z broken", "": "m z broken"} {
		in := s.In(namespace)
		if got := namesOf(in.Entries()); got != want {
			t.Errorf("in %q: %s, want %s", namespace, got, want)
		}
		if e, _ := in.Get("z"); e.Namespace != "" {
			t.Errorf("in %q the namespace's z counts, and not the cluster's", namespace)
		}
		if again := in.In(namespace); namesOf(again.Entries()) != want {
			t.Errorf("in %q twice: %s", namespace, namesOf(again.Entries()))
		}
	}
}

// compiledEntry compiles a manifest into an entry, as controller/store does.
func compiledEntry(name, spec string) Entry {
	manifest := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ")
	t, _, err := Compile([]byte(manifest), Options{})
	return Entry{Name: name, Template: t, Err: err}
}

func TestNamespacesAreRequiredWhereARequiredTemplateSelectsThem(t *testing.T) {
	const payments = "match: {namespaceSelector: {matchLabels: {team: payments}}}\ninject: {metadata: {labels: {a: b}}}"
	for _, c := range []struct {
		name, spec string
		// Of the team payments: is it verified, is it matched by one that is not required?
		want, matched bool
		broken        bool
	}{
		{name: "required", spec: "required: true\n" + payments, want: true},
		{name: "elsewhere", spec: "required: true\n" + strings.Replace(payments, "payments", "shop", 1)},
		{name: "by-pods", spec: "required: true\nmatch: {podSelector: {matchLabels: {a: b}}}\ninject: {}", want: true},
		{name: "not-required", spec: payments, matched: true},
		{name: "not-required-suspended", spec: "suspend: true\n" + payments},
		{name: "suspended", spec: "required: true\nsuspend: true\n" + payments},
		{name: "not-available", spec: "required: true\navailableTo: {namespaceSelector: {matchLabels: {team: shop}}}\n" + payments, want: true},
		{name: "broken", spec: "required: true\nordr: 1\n" + payments, want: true, broken: true},
		{name: "broken-suspended", spec: "required: true\nsuspend: true\nordr: 1\n" + payments, broken: true},
		{name: "broken-not-required", spec: "ordr: 1\n" + payments, matched: true, broken: true},
		{name: "broken-match", spec: "required: true\nmatch: {namespaceSelector: {matchLabels: {team: [payments]}}}\ninject: {}", broken: true},
	} {
		e := compiledEntry(c.name, c.spec)
		if (e.Err != nil) != c.broken {
			t.Errorf("%s: compiled with the error %v", c.name, e.Err)
		}
		set := NewSet([]Entry{e})
		got := set.VerifiedIn(Namespace{Name: "shop", Labels: map[string]string{"team": "payments"}})
		if got != c.want {
			t.Errorf("%s: the namespace is required: %t, want %t", c.name, got, c.want)
		}
		if got := set.MatchedIn(Namespace{Name: "shop", Labels: map[string]string{"team": "payments"}}); got != c.matched {
			t.Errorf("%s: the namespace is matched: %t, want %t", c.name, got, c.matched)
		}
	}
	// A bad version of a template does not take the good one's selector away.
	good, bad := compiledEntry("audit", "required: true\n"+payments), compiledEntry("audit", "ordr: 1")
	if !NewSet([]Entry{{Name: "audit", Template: good.Template, Err: bad.Err}}).VerifiedIn(Namespace{Name: "shop", Labels: map[string]string{"team": "payments"}}) {
		t.Error("with a bad version after a good one the namespace is not verified any more")
	}
}

// Before the API server has made the name of a namespace, its label kubernetes.io/metadata.name
// is whatever the request says. A tenant must not get past a required template by it.
func TestANamespaceWithoutANameIsSelectedByAnyName(t *testing.T) {
	t.Parallel()
	const name = "kubernetes.io/metadata.name"
	for selector, selected := range map[string]bool{
		"{}":                              true,
		"{matchLabels: {team: payments}}": true,
		"{matchLabels: {team: web}}":      false,
		"{matchExpressions: [{key: " + name + ", operator: Exists}]}":                                                 true,
		"{matchExpressions: [{key: " + name + ", operator: DoesNotExist}]}":                                           true,
		"{matchExpressions: [{key: " + name + ", operator: NotIn, values: [kube-system]}]}":                           true,
		"{matchLabels: {" + name + ": shop-x7d2k}}":                                                                   true,
		"{matchLabels: {team: web}, matchExpressions: [{key: " + name + ", operator: NotIn, values: [kube-system]}]}": false,
	} {
		for _, required := range []bool{true, false} {
			template, _, err := Compile([]byte(fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: audit}\n"+
				"spec: {required: %t, match: {namespaceSelector: %s}, inject: {metadata: {labels: {a: b}}}}", required, selector)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			set := NewSet([]Entry{{Name: "audit", Template: template}})
			for _, posing := range []map[string]string{{"team": "payments"}, {"team": "payments", name: "kube-system"}, {"team": "payments", name: "web"}} {
				got := set.MatchedIn
				if required {
					got = set.VerifiedIn
				}
				if got(Namespace{Labels: posing}) != selected {
					t.Errorf("required: %t, the selector %s selects a namespace with the labels %v: %t, want %t", required, selector, posing, !selected, selected)
				}
			}
		}
	}
}

func TestARequiredTemplateOwnsWhatItNamesWhateverItRenders(t *testing.T) {
	const spec = `
required: true
match: {podSelector: {matchLabels: {a: b}}}
inject:
  spec:
    initContainers: [{name: init, image: b}]
    containers: [{$if: "pod.spec.containers.size() > 9", name: audit, image: a}, {name: main, env: []}]
    volumes: `
	for volumes, owned := range map[string]map[string]bool{
		`[{name: data, emptyDir: {}}, {$if: "pod.spec.containers.size() > 9", name: other, emptyDir: {}}]`: {"data": true, "other": true, "datax": false, "": false},
		`[{$patch: replace}, {name: gone, $patch: delete}, {name: new, $patch: replace, emptyDir: {}}]`:    {"gone": false, "new": true, "any": false},
	} {
		for more, good := range map[string]bool{"": true, "\n    nodeNam: x": false} {
			compiled, _, err := Compile(manifestOf(spec+volumes+more), Options{})
			if (err == nil) != good {
				t.Errorf("%s: %v", volumes, err)
			}
			own := Entry{Name: "t", Template: compiled, Err: err}.Own()
			for name, want := range map[string]bool{"audit": true, "init": true, "main": false, "": false} {
				if own.Named(name) != want {
					t.Errorf("%s%s: container %q: %t", volumes, more, name, !want)
				}
			}
			for name, want := range owned {
				if own.Volume(name) != want {
					t.Errorf("%s%s: volume %q: %t", volumes, more, name, !want)
				}
			}
		}
	}
}

const excepted = `
match: {namespaceSelector: {matchLabels: {team: shop}}}
required: true
exceptions:
- {name: legacy, namespaceSelector: {matchLabels: {team: shop}}, podSelector: {matchLabels: {app: batch}}, until: 2027-03-31T00:00:00Z, reason: "OPS-1: moves in March"}
- {name: shorter, podSelector: {matchLabels: {app: batch}}, until: "2027-03-01T00:00:00+01:00", reason: OPS-2}
inject: {spec: {initContainers: [{name: audit, image: "audit:1"}]}}`

func TestAnExceptionEndsAtItsTimeAndTheLastOneCounts(t *testing.T) {
	shop, batch := map[string]string{"team": "shop"}, map[string]string{"app": "batch"}
	all := compiledEntry("audit", excepted).Exceptions()
	end := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		why            string
		namespace, pod map[string]string
		at             time.Time
		name           string
		want           bool
	}{
		{"before the end", shop, batch, end.Add(-time.Nanosecond), "legacy", true},
		{"before the end, by a clock in another zone", shop, batch, end.Add(-time.Second).In(time.FixedZone("", 5*3600)), "legacy", true},
		{"at the end", shop, batch, end, "legacy", false},
		{"long after", shop, batch, end.AddDate(1, 0, 0), "legacy", false},
		{"another pod", shop, map[string]string{"app": "web"}, end.AddDate(0, -2, 0), "", false},
		{"another namespace, so the other exception", nil, batch, end.AddDate(0, -2, 0), "shorter", true},
		{"its end, in its own zone", nil, batch, time.Date(2027, 2, 28, 23, 0, 0, 0, time.UTC), "shorter", false},
	} {
		e := all.Find(c.namespace, c.pod)
		if e == nil || c.name == "" {
			if e != nil || c.name != "" {
				t.Errorf("%s: %v, want %q", c.why, e, c.name)
			}
			continue
		}
		if e.Name != c.name || e.Ended(c.at) == c.want || !strings.Contains(e.Sentence(c.at), "excepted until 2027-") {
			t.Errorf("%s: %q, ended %t; want %q, %t", c.why, e.Sentence(c.at), e.Ended(c.at), c.name, !c.want)
		}
	}
}

func TestAnExceptionSaysWhoUntilWhenAndWhy(t *testing.T) {
	const good = `{name: legacy, namespaceSelector: {matchLabels: {team: shop}}, until: "2027-03-31T00:00:00Z", reason: OPS-1}`
	spec := func(exception string) string {
		return "match: {}\nrequired: true\nexceptions: [" + exception + "]\ninject: {spec: {initContainers: [{name: audit, image: 'audit:1'}]}}"
	}
	if e := compiledEntry("audit", spec(good)); e.Err != nil {
		t.Fatal(e.Err)
	}
	for says, exception := range map[string]string{
		"an exception needs a name":                                  strings.Replace(good, "name: legacy, ", "", 1),
		`exceptions[0].name: is "Old_1"; want a DNS label`:           strings.Replace(good, "legacy", "Old_1", 1),
		`exceptions[1].name: the exception "legacy" is there twice`:  good + ", " + good,
		"an exception needs a reason":                                strings.Replace(good, ", reason: OPS-1", "", 1),
		"reason: has 300 characters; want 256":                       strings.Replace(good, "OPS-1", strings.Repeat("é", 300), 1),
		"an exception needs an end":                                  strings.Replace(good, `until: "2027-03-31T00:00:00Z", `, "", 1),
		`until: is "2027-03-31"; want a time with its zone`:          strings.Replace(good, "T00:00:00Z", "", 1),
		`until: is "2027-03-31T00:00:00"; want a time with its zone`: strings.Replace(good, "00Z", "00", 1),
		"selects every pod that the template matches":                strings.Replace(good, "namespaceSelector: {matchLabels: {team: shop}}, ", "", 1),
		"a label that Pillion sets itself":                           strings.Replace(good, "team: shop", "pillion.dev/injection: enabled", 1),
		"a label that Pillion puts on injected pods":                 strings.Replace(good, "namespaceSelector: {matchLabels: {team: shop}}", "podSelector: {matchLabels: {pillion.dev/injected: x}}", 1),
		"has 65 exceptions; allowed are 64":                          strings.Repeat(good+", ", 64) + good,
		"allowed are 1 to 9999":                                      strings.Replace(good, "2027-03-31T00:00:00Z", "9999-12-31T23:59:59-12:00", 1),
		"needs a reason":                                             strings.Replace(good, "OPS-1", `"  "`, 1),
		"unknown field":                                              strings.Replace(good, "until", "til", 1),
		"name a namespaceSelector or a podSelector":                  strings.Replace(good, "namespaceSelector: {matchLabels: {team: shop}}", "namespaceSelector: {}, podSelector: {}", 1),
	} {
		e := compiledEntry("audit", spec(exception))
		if e.Err == nil || !strings.Contains(e.Err.Error(), says) {
			t.Errorf("%s: %v", exception, e.Err)
		}
		// What cannot be read excepts nobody.
		if n := len(e.Exceptions()); n != 0 {
			t.Errorf("%s: %d exceptions are known", exception, n)
		}
	}
	if e := compiledEntry("audit", strings.Replace(spec(good), "required: true\n", "", 1)); e.Err == nil || !strings.Contains(e.Err.Error(), "is for required templates") {
		t.Errorf("an exception of a template that is not required: %v", e.Err)
	}
	// A mistake elsewhere takes no exception away: the pods would be refused.
	if e := compiledEntry("audit", "ordr: 1\n"+spec(good)); e.Err == nil || len(e.Exceptions()) != 1 {
		t.Errorf("with a mistake elsewhere: %v, %d exceptions", e.Err, len(e.Exceptions()))
	}
}

func TestExceptionsChangeNoHash(t *testing.T) {
	without, _, _ := strings.Cut(excepted, "exceptions:")
	without += "inject: {spec: {initContainers: [{name: audit, image: \"audit:1\"}]}}"
	if a, b := compiledEntry("audit", excepted).Template.Hash(), compiledEntry("audit", without).Template.Hash(); a != b {
		t.Errorf("the hash is %s with exceptions, and %s without", a, b)
	}
}
