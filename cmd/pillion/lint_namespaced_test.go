package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// teamTemplate is a template of a namespace with so many expressions, made in a year.
func teamTemplate(namespace, name string, expressions, year int, more string) string {
	text := fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: NamespacedSidecarTemplate\nmetadata: {name: %s, namespace: %s, creationTimestamp: \"%d-01-01T00:00:00Z\"}\nspec:\n  match: {}\n  inject: {metadata: {labels: {a: b}}}\n%s  variables:\n", name, namespace, year, more)
	for i := range expressions {
		text += fmt.Sprintf("  - {name: v%d, expression: '%d + 1'}\n", i, i)
	}
	return text
}

// audited is a required template of pods with a label.
const audited = "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: audit}\nspec:\n  required: true\n  match: {podSelector: {matchLabels: {mesh: 'on'}}}\n  inject: {metadata: {labels: {audited: 'yes'}}}\n"

func lintBeside(t *testing.T, c *inspect.Cluster, namespace string, files ...string) (string, error) {
	t.Helper()
	set := templates.NewSet([]templates.Entry{{Name: "proxy", Source: "SidecarTemplate/proxy", Template: templatestest.Compile(t, bounded(1024))}, {Name: "audit", Source: "SidecarTemplate/audit", Template: templatestest.Compile(t, audited)}})
	set = c.NamespacedTemplates(t.Context(), set, templates.Options{Prefix: "pillion.dev"})
	u := &templateUsers{Live: c.By(inspect.Settings{Prefix: "pillion.dev", Excluded: []string{"kube-system"}, Templates: set})}
	var documents []lint.Document
	for i, text := range files {
		documents = append(documents, lint.Document{Source: fmt.Sprint(i, ".yaml"), Document: templates.Document{Manifest: []byte(text), Line: 1}})
	}
	results, err := u.lint(t.Context(), documents, lint.Options{}, namespace)
	if err != nil {
		return "", err
	}
	if err := u.check(t.Context(), documents, results); err != nil {
		return "", err
	}
	var found []string
	for _, r := range results {
		for _, f := range r.Findings {
			if f.Severity != lint.Note {
				found = append(found, f.String())
			}
		}
	}
	return strings.Join(found, "\n"), nil
}

func TestLintOfAClusterChecksTheTemplatesOfItsNamespaces(t *testing.T) {
	objects := []string{
		teamTemplate("shop", "old", 40, 2020, ""), teamTemplate("shop", "young", 30, 2024, ""),
		teamTemplate("pay", "old", 40, 2021, ""), teamTemplate("pay", "wrong", 1, 2021, "  ordr: 3\n"),
		teamTemplate("kube-system", "own", 1, 2021, ""),
		strings.Replace(teamTemplate("pay", "proxy", 1, 2021, ""), "spec:\n", "status: {conditions: [{type: Ready, status: \"False\"}]}\nspec:\n", 1),
	}
	c := inspecttest.Cluster(t, strings.Join(objects, "\n---\n"), inspecttest.Options{})
	shadowed := "error: NamespacedSidecarTemplate/pay/proxy: template proxy: metadata.name: a template of the cluster has the name, and counts: SidecarTemplate/proxy; rename this one [name-taken]"
	wrong := "error: NamespacedSidecarTemplate/pay/wrong: template wrong: spec.ordr: "
	excluded := "warning: NamespacedSidecarTemplate/kube-system/own: template own: namespace kube-system is excluded"
	room := "finds no room beside the other templates of the namespace"
	for why, test := range map[string]struct {
		namespace string
		files     []string
		want      []string
	}{
		"all of the cluster":               {"", nil, []string{excluded, shadowed, wrong}},
		"those of a namespace":             {"pay", nil, []string{shadowed, wrong}},
		"those of another":                 {"shop", nil, nil},
		"one more than there is room for":  {"", []string{teamTemplate("shop", "more", 20, 2026, "")}, []string{"error: 0.yaml:3: template more: metadata.name: " + room}},
		"one for which there is room":      {"", []string{teamTemplate("shop", "more", 5, 2026, "")}, nil},
		"without a namespace, by -n":       {"shop", []string{strings.Replace(teamTemplate("shop", "more", 20, 2026, ""), "namespace: shop, ", "", 1)}, []string{"error: 0.yaml:3: template more: metadata.name: " + room}},
		"a change of the oldest":           {"", []string{teamTemplate("shop", "old", 60, 2026, "")}, []string{"error: NamespacedSidecarTemplate/shop/young: template young: metadata.name: " + room}},
		"a change that is smaller":         {"", []string{teamTemplate("shop", "old", 5, 2026, ""), teamTemplate("shop", "more", 20, 2026, "")}, nil},
		"the name of the cluster's":        {"", []string{teamTemplate("shop", "proxy", 1, 2026, "")}, []string{"error: 0.yaml:3: template proxy: metadata.name: a template of the cluster has the name, and counts: SidecarTemplate/proxy"}},
		"a name that teams have":           {"", []string{"apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: old}\nspec: {inject: {metadata: {labels: {a: b}}}}\n"}, []string{"error: NamespacedSidecarTemplate/pay/old: template old: metadata.name: a template of the cluster has the name, and counts: 0.yaml:3", "error: NamespacedSidecarTemplate/shop/old: template old: metadata.name: a template of the cluster has the name"}},
		"one in a namespace that is empty": {"", []string{teamTemplate("new", "old", 60, 2026, "")}, nil},
	} {
		got, err := lintBeside(t, c, test.namespace, test.files...)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(got, "\n")
		if got == "" {
			lines = nil
		}
		if !slices.EqualFunc(lines, test.want, strings.HasPrefix) {
			t.Errorf("%s:\n%s\nwant\n%s", why, got, strings.Join(test.want, "\n"))
		}
	}
}

// What cannot be read is said where it could matter, and without files it is all that was asked.
func TestLintSaysThatTheTemplatesOfNamespacesCannotBeRead(t *testing.T) {
	own, known := teamTemplate("shop", "own", 1, 2026, ""), bounded(1024)
	lacking := inspecttest.Cluster(t, "", inspecttest.Options{Forbidden: []string{"list namespacedsidecartemplates"}})
	without := inspecttest.Cluster(t, "", inspecttest.Options{})
	without.Objects.(*dynamicfake.FakeDynamicClient).PrependReactor("list", "namespacedsidecartemplates", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
	})
	for want, c := range map[string]*inspect.Cluster{
		"you lack the right to list namespacedsidecartemplates.pillion.dev in all namespaces": lacking,
		"the API has no NamespacedSidecarTemplates of the group pillion.dev":                  without,
	} {
		got, err := lintBeside(t, c, "", own, known)
		if err != nil || !strings.HasPrefix(got, "warning: 0.yaml: template own: was not compared with the templates that namespaces of the cluster have of their own: "+want) || strings.Contains(got, "1.yaml") || !strings.Contains(got, ". With -n NAMESPACE only") {
			t.Errorf("%v\n%s\nwant %s", err, got, want)
		}
		if _, err := lintBeside(t, c, ""); err == nil || c == without && !strings.Contains(err.Error(), want) || c == lacking && !apierrors.IsForbidden(err) {
			t.Errorf("without files: %v, want %s", err, want)
		}
	}
	// The right in one namespace is enough for that one.
	if got, err := lintBeside(t, lacking, "shop", own); err != nil || got != "" {
		t.Errorf("%v\n%s", err, got)
	}
}

// A change of a namespace's template is compared for the pods of the namespace, as one of the cluster
// is for all.
func TestLintSaysWhatAChangedTemplateOfANamespaceWouldRefuse(t *testing.T) {
	own := func(namespace string, maximum int, label string) string {
		return fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: NamespacedSidecarTemplate\nmetadata: {name: own, namespace: %s}\nspec:\n  match: {}\n  parameters: [{name: port, type: integer, default: 1, maximum: %d}]\n  inject: {metadata: {labels: {%s: 'on', port: \"${params.port}\"}}}\n", namespace, maximum, label)
	}
	objects := []string{own("shop", 1024, "x"), own("pay", 1024, "x")}
	for _, namespace := range []string{"shop", "pay"} {
		objects = append(objects, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", labels: {pillion.dev/injection: enabled}}}",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: "+namespace+"}, spec: {template: {metadata: {annotations: {own.pillion.dev/port: '512'}}, spec: {containers: [{name: app, image: 'app:1'}]}}}}")
	}
	c := inspecttest.Cluster(t, strings.Join(objects, "\n---\n"), inspecttest.Options{})
	// A team has rights in its namespace, and none on what is of the whole cluster.
	rights := inspecttest.Cluster(t, strings.Join(objects, "\n---\n"), inspecttest.Options{Forbidden: []string{"list namespaces", "list pods", "list namespacedsidecartemplates"}})
	const refuse = "error: 0.yaml: template own: in the cluster it would newly refuse pods of one user (0 running now): "
	for why, test := range map[string]struct{ file, want string }{
		"nothing changes":                       {own("shop", 1024, "x"), ""},
		"a larger maximum":                      {own("shop", 2048, "x"), ""},
		"a smaller maximum":                     {own("shop", 64, "x"), refuse + "annotation own.pillion.dev/port on the pod: must be a whole number, at most 64; got \"512\" (BadParameter): shop/deployment/web."},
		"the label of a required template":      {own("shop", 1024, "mesh"), refuse + "template audit: it would select, judge or extend the pod otherwise"},
		"the same name of an unknown namespace": {own("other", 64, "x"), ""},
	} {
		got, err := lintBeside(t, c, "", test.file)
		if err != nil || !strings.HasPrefix(got, test.want) || test.want == "" && got != "" || strings.Contains(got, "pay/") {
			t.Errorf("%s: %v\n%s\nwant %s", why, err, got, test.want)
		}
		if team, err := lintBeside(t, rights, "shop", test.file); err != nil || team != got {
			t.Errorf("%s: with rights in namespace shop: %v\n%s\nwant\n%s", why, err, team, got)
		}
	}
}
