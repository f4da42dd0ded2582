package templates

import (
	"fmt"
	"strings"
	"testing"
)

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

// Pillion sets the label because of the selector, so the selector cannot depend on it.
func TestATemplateCannotSelectNamespacesByTheLabelThatPillionKeeps(t *testing.T) {
	for _, selector := range []string{"match: {namespaceSelector: SELECTOR}", "availableTo: {namespaceSelector: SELECTOR}"} {
		for _, s := range []string{"{matchLabels: {pillion.dev/required: 'true'}}", "{matchExpressions: [{key: pillion.dev/required, operator: DoesNotExist}]}", "{matchLabels: {pillion.dev/injection: enabled}}"} {
			e := compiledEntry("circular", strings.Replace(selector, "SELECTOR", s, 1)+"\ninject: {}")
			if e.Err == nil || !strings.Contains(e.Err.Error(), "namespaceSelector: selects by pillion.dev/") || !strings.Contains(e.Err.Error(), "a label that Pillion sets") {
				t.Errorf("%s with %s: %v", selector, s, e.Err)
			}
		}
	}
	if e := compiledEntry("other", "match: {namespaceSelector: {matchLabels: {other.dev/required: 'true'}}}\ninject: {}"); e.Err != nil {
		t.Errorf("another release's label: %v", e.Err)
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
