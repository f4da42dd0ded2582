package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/inspecttest"
	"github.com/pillion-dev/pillion/offline/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// bounded is a template whose parameter has a maximum.
func bounded(maximum int) string {
	return fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: proxy}\nspec:\n  parameters: [{name: port, type: integer, default: 1, maximum: %d}]\n  inject: {metadata: {labels: {port: \"${params.port}\"}}}\n", maximum)
}

func userDeployment(namespace, name, port string) map[string]any {
	annotations := map[string]any{}
	if port != "" {
		annotations["proxy.pillion.dev/port"] = port
	}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "app:1"}}}}},
	}
}

// users returns a cluster in which a template with a maximum of 1024 is in force.
func users(t *testing.T, forbidden []string, objects ...map[string]any) *templateUsers {
	t.Helper()
	old := templatestest.Compile(t, bounded(1024))
	pod := func(name, owner, port string) map[string]any {
		p := map[string]any{
			"metadata": map[string]any{"name": name, "namespace": "shop", "labels": map[string]any{"pod-template-hash": "5d8c"}, "annotations": map[string]any{"proxy.pillion.dev/port": port}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "app:1"}}}, "status": map[string]any{"phase": "Running"},
		}
		if owner != "" {
			p["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner + "-5d8c", "uid": "1", "controller": true}}
		}
		return p
	}
	manifests := []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {pillion.dev/injection: enabled}, annotations: {pillion.dev/inject: proxy}}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: quiet}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: set, labels: {pillion.dev/injection: enabled}, annotations: {pillion.dev/inject: proxy, proxy.pillion.dev/port: "700"}}}`,
	}
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, string(text))
	}
	c := inspecttest.Cluster(t, strings.Join(manifests, "\n---\n"), inspecttest.Options{Pods: []map[string]any{pod("web-5d8c-1", "web", "512"), pod("web-5d8c-2", "web", "512"), pod("bare", "", "99")}, Forbidden: forbidden})
	return &templateUsers{Live: c.By(inspect.Settings{Prefix: "pillion.dev", Excluded: []string{"kube-system"}, Templates: templates.NewSet([]templates.Entry{{Name: "proxy", Template: old}})}, templates.NewestKubernetes())}
}

func clusterFindings(t *testing.T, u *templateUsers, maximum int) string {
	t.Helper()
	documents := []lint.Document{{Source: "proxy.yaml", Document: templates.Document{Manifest: []byte(bounded(maximum)), Line: 1}}}
	results := []lint.Result{{Source: "proxy.yaml", Template: "proxy"}}
	if err := u.check(t.Context(), documents, results); err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, f := range results[0].Findings {
		text = append(text, f.String())
	}
	return strings.Join(text, "\n")
}

// A maximum lowered from 1024 to 64 broke Deployments later, without a word.
func TestAMaximumThatIsLoweredNamesWhatItBreaks(t *testing.T) {
	objects := []map[string]any{userDeployment("shop", "web", "512"), userDeployment("shop", "idle", "512"), userDeployment("shop", "fine", "64"), userDeployment("quiet", "other", "512")}
	got := clusterFindings(t, users(t, nil, objects...), 64)
	want := []string{
		`error: proxy.yaml: template proxy: in the cluster it would newly refuse pods of 2 users (2 running now): annotation proxy.pillion.dev/port on the pod: must be a whole number, at most 64; got "512" (BadParameter): shop/deployment/idle, shop/deployment/web (2 running). Before you apply the template, change their annotations, or let the template still allow them [cluster]`,
		`error: proxy.yaml: template proxy: in the cluster it would newly refuse pods of one user (0 running now): annotation proxy.pillion.dev/port on the namespace: must be a whole number, at most 64; got "700" (BadParameter): set/each new pod. Before you apply the template, change their annotations, or let the template still allow them [cluster]`,
		`shop/pod/bare (1 running)`,
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("got\n%s\nwithout\n%s", got, w)
		}
	}
	if strings.Contains(got, "fine") || strings.Contains(got, "quiet") {
		t.Errorf("what is not refused is named:\n%s", got)
	}
	for _, maximum := range []int{1024, 2048} {
		if got := clusterFindings(t, users(t, nil, objects...), maximum); got != "" {
			t.Errorf("a maximum of %d: %s", maximum, got)
		}
	}
}

func TestWhatLintSaysOfAClusterIsBounded(t *testing.T) {
	var objects []map[string]any
	for i := range 30 {
		objects = append(objects, userDeployment("shop", fmt.Sprintf("web-%02d", i), "512"), userDeployment("shop", fmt.Sprintf("more-%02d", i), fmt.Sprint(600+i)))
	}
	got := clusterFindings(t, users(t, nil, objects...), 64)
	if n := strings.Count(got, "\n") + 1; n != mostReasons+1 || !strings.Contains(got, "shop/deployment/web-08 and 21 more.") || !strings.Contains(got, "13 more reasons") {
		t.Errorf("%d findings:\n%s", n, got)
	}
}

func TestARightThatLintLacksIsNamed(t *testing.T) {
	u := users(t, []string{"list jobs shop"})
	got := clusterFindings(t, u, 64)
	if !strings.Contains(got, "warning: proxy.yaml: template proxy: not everything that uses it could be looked at: you lack the right to list jobs.batch in namespace shop") || !strings.Contains(got, "kubectl -n shop create role") {
		t.Errorf("got\n%s", got)
	}
}

func TestLintSaysWhichNamespacesComeToDependOnPillion(t *testing.T) {
	template := func(name, spec string) lint.Document {
		return lint.Document{Document: templates.Document{Manifest: []byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec:\n  inject: {metadata: {labels: {a: b}}}\n" + spec), Line: 1}}
	}
	c := inspecttest.Cluster(t, "{apiVersion: v1, kind: Namespace, metadata: {name: quiet}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}", inspecttest.Options{})
	c.Count = func(context.Context, []string) (map[string]int, error) { return map[string]int{"quiet": 3}, nil }
	u := &templateUsers{Live: c.By(inspect.Settings{Prefix: "pillion.dev", Excluded: []string{"kube-system"}, Templates: templates.NewSet(nil)}, templates.NewestKubernetes())}
	results := []lint.Result{{Template: "narrow"}, {Template: "all"}, {Template: "required"}, {Template: "asked"}}
	documents := []lint.Document{template("narrow", "  match: {namespaceSelector: {matchLabels: {a: b}}}"), template("all", "  match: {podSelector: {}}"), template("required", "  required: true\n  match: {}"), template("asked", "")}
	if err := u.check(t.Context(), documents, results); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range results {
		for _, f := range r.Findings {
			got = append(got, f.String())
		}
	}
	want := []string{
		"note: : template all: spec.match: more namespaces will depend on Pillion, by the label pillion.dev/injection=enabled: quiet (namespaces: 1, pods: 3). While Pillion does not answer, new pods there are created without their sidecars [cluster]",
		"note: : template required: spec.match: more namespaces will depend on Pillion, by the label pillion.dev/injection=enforced: quiet (namespaces: 1, pods: 3). While Pillion does not answer, new pods there are refused [cluster]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An API server lists one pod, and says how many more there are.
func TestPodsAreCountedWithoutReadingThem(t *testing.T) {
	client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == "gone" {
			return true, nil, context.DeadlineExceeded
		}
		return true, &metav1.List{ListMeta: metav1.ListMeta{RemainingItemCount: new(int64(41))}, Items: []runtime.RawExtension{{Object: &metav1.PartialObjectMetadata{}}}}, nil
	})
	if got, err := inspect.PodCounts(t.Context(), client, []string{"a", "b"}); err != nil || got["a"] != 42 || got["b"] != 42 {
		t.Errorf("%v, %v", got, err)
	}
	d := dependence{rules: labels.Rules{Prefix: "pillion.dev"}, count: func(ctx context.Context, names []string) (map[string]int, error) {
		return inspect.PodCounts(ctx, client, names)
	}}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"a"}, "a (namespaces: 1, pods: 42)"},
		{[]string{"a", "b", "c", "d", "e", "f", "h"}, "a, b, c, d, e and 2 more (namespaces: 7, pods: 294)"},
		{[]string{"gone"}, "gone (namespaces: 1)"},
	} {
		if got := d.sentence(t.Context(), "enabled", c.names, "refused"); len(got) != 1 || !strings.Contains(got[0], c.want+". While Pillion does not answer, new pods there are refused") {
			t.Errorf("%v: %q", c.names, got)
		}
	}
}

// An exception that is taken out, or that has ended by the time that is given, refuses pods. The hash
// of the template says nothing of it.
func TestAnExceptionThatGoesNamesWhatItRefuses(t *testing.T) {
	const with = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: audit}
spec:
  required: true
  match: {namespaceSelector: {matchLabels: {team: shop}}}
  exceptions: [{name: legacy, podSelector: {matchLabels: {app: batch}}, until: "9999-01-01T00:00:00Z", reason: OPS-1}]
  validations: [{name: quiet, expression: "pod.metadata.?labels['app'].orValue('') != 'batch'", message: not yet}]
  inject: {metadata: {labels: {a: b}}}
`
	const manifests = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop, pillion.dev/injection: enforced}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: batch, namespace: shop}, spec: {template: {metadata: {labels: {app: batch}}, spec: {containers: [{name: app, image: "app:1"}]}}}}
`
	c := inspecttest.Cluster(t, manifests, inspecttest.Options{})
	for _, test := range []struct {
		why, manifest string
		now           time.Time
		refused       bool
	}{
		{"nothing changes", with, time.Time{}, false},
		{"the exception goes", strings.Replace(with, `legacy, podSelector: {matchLabels: {app: batch}}`, `legacy, podSelector: {matchLabels: {app: other}}`, 1), time.Time{}, true},
		{"before its end", with, time.Date(9998, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{"at its end", with, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), true},
	} {
		u := &templateUsers{Live: c.By(inspect.Settings{Prefix: "pillion.dev", Templates: templatestest.Set(t, with)}, templates.NewestKubernetes()), now: test.now}
		results := []lint.Result{{Source: "audit.yaml", Template: "audit"}}
		if err := u.check(t.Context(), []lint.Document{{Source: "audit.yaml", Document: templates.Document{Manifest: []byte(test.manifest), Line: 1}}}, results); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(results[0].Findings); strings.Contains(got, "not yet (ValidationFailed): shop/deployment/batch") != test.refused {
			t.Errorf("%s: %s", test.why, got)
		}
	}
}
