package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/inspect/explain"
)

const predictTemplate = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: proxy}
spec:
  injectByDefault: true
  parameters:
  - {name: memory, type: quantity, default: 64Mi}
  - {name: cpu, type: quantity, default: 10m, setBy: [Namespace]}
  inject:
    spec:
      initContainers:
      - name: proxy
        image: proxy:1
        restartPolicy: Always
        resources: {requests: {cpu: "${params.cpu}", memory: "${params.memory}"}, limits: {memory: "${params.memory}"}}
        securityContext: {privileged: true}
`

// What refuses the pod after its injection, inject and explain tell before: with the template
// and the parameter, and whether the pod would pass without the sidecar.
func TestWhatRefusesThePodAfterItsInjectionIsForetold(t *testing.T) {
	plain := "kind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: web, image: 'w:1', resources: {requests: {cpu: 1m, memory: 1Mi}, limits: {cpu: 1m, memory: 1Mi}}}]}\n"
	bare := "kind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: web, image: 'w:1'}]}\n"
	namespace := func(labels, more string) string {
		return "kind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: 'true'}" + labels + "}\n" + more
	}
	const passes = "; without the sidecars the pod would pass. It comes from the template proxy: "
	for _, c := range []struct{ why, pod, namespace, says string }{
		{"nothing", plain, namespace("", ""), ""},
		{"a level that forbids nothing", plain, namespace(", labels: {pod-security.kubernetes.io/enforce: privileged}", ""), ""},
		{
			"an enforced level", plain, namespace(", labels: {pod-security.kubernetes.io/enforce: baseline}", ""),
			`refused: Pod/web: Pod Security refuses the pod, since the namespace shop has pod-security.kubernetes.io/enforce: baseline: privileged (container "proxy" must not set securityContext.privileged=true)` + passes + "no parameter changes it; the author of the template can, or the person who sets the Pod Security level of the namespace shop",
		},
		{
			"a level that warns", plain, namespace(", labels: {pod-security.kubernetes.io/warn: baseline}", ""),
			`warning: Pod/web: Pod Security warns of the pod, since the namespace shop has pod-security.kubernetes.io/warn: baseline`,
		},
		{
			"a level that the pod breaks already", plain, namespace(", labels: {pod-security.kubernetes.io/enforce: restricted}", ""),
			`warning: Pod/web: Pod Security refuses the pod, since the namespace shop has pod-security.kubernetes.io/enforce: restricted`,
		},
		{
			"a maximum", plain, namespace("", "---\nkind: LimitRange\nmetadata: {name: small, namespace: shop}\nspec: {limits: [{type: Container, max: {memory: 32Mi}}]}\n"),
			"refused: Pod/web: the LimitRange small refuses the pod: container proxy: maximum memory usage per Container is 32Mi, but limit is 64Mi" + passes + "the parameter proxy.pillion.dev/memory (on the namespace or on the pod) changes it, or the person who sets the limits of the namespace shop",
		},
		{
			"a minimum that only the namespace can reach", plain, namespace("", "---\nkind: LimitRange\nmetadata: {name: large, namespace: shop}\nspec: {limits: [{type: Pod, min: {cpu: 1m}, max: {cpu: 5m}}]}\n"),
			"maximum cpu usage per Pod is 5m, but request is 11m" + passes + "the parameter proxy.pillion.dev/cpu (on the namespace) changes it",
		},
		{"a LimitRange of another namespace", plain, namespace("", "---\nkind: LimitRange\nmetadata: {name: small, namespace: other}\nspec: {limits: [{type: Container, max: {memory: 32Mi}}]}\n"), ""},
		{
			"a quota that every container must count for", plain, namespace("", "---\nkind: ResourceQuota\nmetadata: {name: all, namespace: shop}\nspec: {hard: {limits.cpu: '1'}}\n"),
			"refused: Pod/web: the ResourceQuota all refuses the pod: must specify limits.cpu for: proxy" + passes + "the parameter proxy.pillion.dev/cpu (on the namespace) changes it",
		},
		{"a quota that a LimitRange fills in for", plain, namespace("", "---\nkind: ResourceQuota\nmetadata: {name: all, namespace: shop}\nspec: {hard: {limits.cpu: '1'}}\n---\nkind: LimitRange\nmetadata: {name: small, namespace: shop}\nspec: {limits: [{type: Container, default: {cpu: 100m}}]}\n"), ""},
		{
			"a quota that is used up", plain, namespace("", "---\nkind: ResourceQuota\nmetadata: {name: all, namespace: shop}\nspec: {hard: {memory: 1Gi}}\nstatus: {used: {memory: 1000Mi}}\n"),
			"warning: Pod/web: the ResourceQuota all refuses the pod: exceeded quota: requested: memory=65Mi, used: memory=1000Mi, limited: memory=1Gi",
		},
		{
			"a quota smaller than the sidecar", plain, namespace("", "---\nkind: ResourceQuota\nmetadata: {name: all, namespace: shop}\nspec: {hard: {memory: 50Mi}}\n"),
			"refused: Pod/web: the ResourceQuota all refuses the pod: exceeded quota: requested: memory=65Mi",
		},
		{"a quota with a scope", plain, namespace("", "---\nkind: ResourceQuota\nmetadata: {name: all, namespace: shop}\nspec: {hard: {memory: 50Mi}, scopes: [BestEffort]}\n"), ""},
		{
			"a quota that the pod breaks already", bare, namespace("", "---\nkind: ResourceQuota\nmetadata: {name: all, namespace: shop}\nspec: {hard: {limits.cpu: '1'}}\n"),
			"warning: Pod/web: the ResourceQuota all refuses the pod: must specify limits.cpu for: proxy; so it is without the sidecars",
		},
	} {
		files := map[string]string{"t.yaml": predictTemplate, "ns.yaml": c.namespace}
		code, out, errs := call(t, c.pod, files, "inject", "-f", "-", "--library=fluent-bit", "--templates", "DIR/t.yaml", "--namespace-file", "DIR/ns.yaml")
		refused := strings.HasPrefix(c.says, "refused") || strings.Contains(c.says, passes)
		if !strings.Contains(errs, c.says) || c.says == "" && errs != "" || (code == exitError) != refused || refused != (out == "") {
			t.Errorf("%s: exit %d, %s\nwant %s", c.why, code, errs, c.says)
		}
		code, out, _ = call(t, c.pod, files, "explain", "-f", "-", "--library=fluent-bit", "--templates", "DIR/t.yaml", "--namespace-file", "DIR/ns.yaml")
		if (code == exitError) != refused {
			t.Errorf("%s: explain ends with %d", c.why, code)
		}
		if says := strings.Replace(c.says, "Pod/web: ", "", 1); !strings.Contains(flat(out), says) || refused != strings.Contains(flat(out), "and then refused by the cluster") {
			t.Errorf("%s: explain says\n%s\nwant %s", c.why, out, says)
		}
	}
}

func TestWhatTheAPIServerRefusesOfAnInjectedPodIsForetold(t *testing.T) {
	template := strings.Replace(predictTemplate, "name: proxy\n        image", "name: audit_proxy\n        image", 1)
	pod := "kind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: web, image: 'w:1'}]}}}\n"
	code, out, errs := call(t, pod, map[string]string{"t.yaml": template, "ns.yaml": "kind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: 'true'}}\n"}, "inject", "-f", "-", "--library=fluent-bit", "--templates", "DIR/t.yaml", "--namespace-file", "DIR/ns.yaml")
	if code != exitError || out != "" || !strings.Contains(errs, `refused: Deployment/web: the API server refuses the pod: spec.initContainers[audit_proxy].name: Invalid value: "audit_proxy"`) ||
		!strings.Contains(errs, "It comes from the template proxy: no parameter changes it; the author of the template can\n") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestExplainWritesTroublesAsJSON(t *testing.T) {
	files := map[string]string{"t.yaml": predictTemplate, "ns.yaml": "kind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: 'true'}}\n---\nkind: LimitRange\nmetadata: {name: small, namespace: shop}\nspec: {limits: [{type: Container, max: {memory: 32Mi}}]}\n"}
	pod := "kind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: web, image: 'w:1', resources: {limits: {memory: 1Mi}}}]}\n"
	code, out, errs := call(t, pod, files, "explain", "-f", "-", "-o", "json", "--library=fluent-bit", "--templates", "DIR/t.yaml", "--namespace-file", "DIR/ns.yaml")
	var got explain.Report
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitError || len(got.Pods) != 1 {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
	}
	p := got.Pods[0]
	if !p.Refused || p.Name != "Pod/web" || len(p.Troubles) != 1 || len(p.Rules) == 0 {
		t.Fatalf("got\n%s", out)
	}
	if trouble := p.Troubles[0]; trouble.Source != "limit-range" || !trouble.Refused || trouble.AlsoWithout || !slices.Equal(trouble.Templates, []string{"proxy"}) || !slices.Equal(trouble.Parameters, []string{"proxy.pillion.dev/memory"}) {
		t.Errorf("the trouble %+v", trouble)
	}
}
