package templates

import (
	"fmt"
	"strings"
	"testing"
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

// What cannot be read excepts nobody, and a mistake elsewhere takes no exception away: the pods would be refused.
func TestOnlyExceptionsThatCanBeReadExceptPods(t *testing.T) {
	const good = `{name: legacy, podSelector: {matchLabels: {app: batch}}, until: "2027-03-31T00:00:00Z", reason: OPS-1}`
	for exceptions, want := range map[string]int{
		good: 1,
		strings.Replace(good, "T00:00:00Z", "", 1):                    0,
		strings.Replace(good, "matchLabels", "matchLabel", 1):         0,
		strings.Replace(good, "podSelector: {", "podSelectors: {", 1): 0,
		strings.Repeat(good+", ", 64) + good:                          0,
	} {
		e := compiledEntry("audit", "ordr: 1\nmatch: {}\nrequired: true\nexceptions: ["+exceptions+"]\ninject: {}")
		if got := len(e.Exceptions()); e.Err == nil || got != want {
			t.Errorf("%.200s: %d exceptions, want %d (%v)", exceptions, got, want, e.Err)
		}
	}
}

func TestARequiredTemplateOwnsNeitherWhatItExtendsNorWhatItRemoves(t *testing.T) {
	own := compiledEntry("audit", `{required: true, match: {podSelector: {matchLabels: {a: b}}}, inject: {spec: {
    initContainers: [{name: init, image: b}], containers: [{$if: "pod.spec.containers.size() > 9", name: audit, image: a}, {name: main, env: []}],
    volumes: [{name: gone, $patch: delete}, {name: new, emptyDir: {}}]}}}`).Own()
	for name, want := range map[string]bool{"audit": true, "init": true, "main": false} {
		if own.Named(name) != want {
			t.Errorf("container %s: %t", name, !want)
		}
	}
	if own.Volume("gone") || !own.Volume("new") {
		t.Errorf("the volumes are %v", own)
	}
}
