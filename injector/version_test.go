package injector

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// auditCanary is audit with another image, as a canary of it.
func auditCanary(name, fields string) string {
	text := audit
	for _, line := range []string{"required: true\n", "match: {namespaceSelector: {matchLabels: {team: shop}}, podSelector: {matchExpressions: [{key: exempt, operator: DoesNotExist}]}}\n"} {
		text = strings.Replace(text, "  "+line, "", 1)
	}
	return strings.NewReplacer("{name: audit}\nspec:\n", "{name: "+name+"}\nspec:\n  canary: {"+strings.TrimSuffix("of: audit, "+fields, ", ")+"}\n", "image: registry.example.com/audit:1", "image: registry.example.com/audit:2").Replace(text)
}

// ownedPod is a pod of the first replica of a Deployment.
func ownedPod(t testing.TB, deployment, labels string) map[string]any {
	t.Helper()
	return podOf(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"%[1]s-5d8f-","labels":{"pod-template-hash":"5d8f"%[2]s},
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%[1]s-5d8f","controller":true,"uid":"u"}]},"spec":{"containers":[{"name":"app","image":"app:1"}]}}`, deployment, labels))
}

func imageOf(pod map[string]any) string {
	for _, c := range itemsOf(pod, "initContainers") {
		if nameOf(c) == "audit" {
			return strings.TrimPrefix(c["image"].(string), "registry.example.com/audit:")
		}
	}
	return ""
}

func TestAPodGetsTheCanaryThatSelectsItUnderTheStableName(t *testing.T) {
	stable := audit
	for name, c := range map[string]struct {
		set  *templates.Set
		want string
	}{
		"no canary":           {templatestest.Set(t, helper, stable), "1"},
		"everybody":           {templatestest.Set(t, helper, stable, auditCanary("audit-next", "percent: 100")), "2"},
		"nobody by default":   {templatestest.Set(t, helper, stable, auditCanary("audit-next", "")), "1"},
		"the namespace":       {templatestest.Set(t, helper, stable, auditCanary("audit-next", "namespaceSelector: {matchLabels: {team: shop}}")), "2"},
		"another namespace":   {templatestest.Set(t, helper, stable, auditCanary("audit-next", "namespaceSelector: {matchLabels: {team: pay}}")), "1"},
		"the pod":             {templatestest.Set(t, helper, stable, auditCanary("audit-next", "podSelector: {matchLabels: {app: web}}")), "2"},
		"a pod, not of 0 %":   {templatestest.Set(t, helper, stable, auditCanary("audit-next", "percent: 0, podSelector: {matchLabels: {app: web}}")), "1"},
		"suspended":           {templatestest.Set(t, helper, stable, strings.Replace(auditCanary("audit-next", "percent: 100"), "  canary:", "  suspend: true\n  canary:", 1)), "1"},
		"the first by name":   {templatestest.Set(t, helper, stable, auditCanary("audit-a", "percent: 100"), strings.ReplaceAll(auditCanary("audit-b", "percent: 100"), "audit:2", "audit:13")), "2"},
		"the first selecting": {templatestest.Set(t, helper, stable, auditCanary("audit-a", "percent: 0"), strings.ReplaceAll(auditCanary("audit-b", "percent: 100"), "audit:2", "audit:13")), "13"},
		"of nobody":           {templatestest.Set(t, helper, stable, strings.ReplaceAll(auditCanary("audit-next", "percent: 100"), "of: audit,", "of: audits,")), "1"},
	} {
		pod := ownedPod(t, "web", `,"app":"web"`)
		out, err := NewPipeline(Config{}).Inject(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: shop, Templates: c.set, Explain: true})
		if err != nil || imageOf(out.Pod) != c.want {
			t.Errorf("%s: image %q (%v %s), want %q", name, imageOf(out.Pod), err, out.Message, c.want)
			continue
		}
		auditOutcome := out.Templates[slices.IndexFunc(out.Templates, func(o TemplateOutcome) bool { return o.Name == "audit" })]
		hashes := NewPipeline(Config{}).Injected(out.Pod)
		entry, _ := c.set.Get("audit")
		if want := auditOutcome.Template().Hash(); hashes["audit"] != want || (c.want == "1") != (want == entry.Template.Hash()) {
			t.Errorf("%s: the record has %v", name, hashes)
		}
		// The final pod is verified against the same version, and a second call changes nothing.
		if refused := verifyRequired(t, c.set, Request{Operation: "CREATE", Pod: out.Pod, Namespace: shop, Templates: c.set}, nil); refused != "" {
			t.Errorf("%s: %s", name, refused)
		}
		again, err := NewPipeline(Config{}).Inject(t.Context(), Request{Operation: "CREATE", Pod: out.Pod, Namespace: shop, Templates: c.set})
		if err != nil || len(again.Operations) > 0 || !reflect.DeepEqual(again.Pod, out.Pod) {
			t.Errorf("%s: a second call changes the pod: %v %v", name, again.Operations, err)
		}
		if c.want == "2" {
			steps, _ := json.Marshal(out.Steps)
			if !strings.Contains(string(steps), "selected: version "+hashes["audit"]) || auditOutcome.Canary == "" {
				t.Errorf("%s: the explanation does not say which version: %s", name, steps)
			}
		}
	}
}

func TestTheShareOfACanaryGrowsAndIsTheSameForAllPodsOfAWorkload(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name, ns := rapid.StringMatching(`[a-z]{1,12}`).Draw(r, "name"), rapid.StringMatching(`[a-z]{1,12}`).Draw(r, "namespace")
		small := rapid.IntRange(0, 100).Draw(r, "percent")
		large := rapid.IntRange(small, 100).Draw(r, "larger percent")
		get := func(percent int, hash string) bool {
			set := templatestest.Set(t, helper, strings.NewReplacer("{name: helper}", "{name: helper-next}", "spec:\n", fmt.Sprintf("spec:\n  canary: {of: helper, percent: %d}\n", percent)).Replace(helper))
			pod := ownedPod(t, name, "")
			text, _ := json.Marshal(pod)
			pod = podOf(t, strings.ReplaceAll(string(text), "5d8f", hash))
			stable, _ := set.Get("helper")
			c := NewPipeline(Config{}).begin(t.Context(), Request{Templates: set, Namespace: templates.Namespace{Name: ns}})
			return c.version(stable, pod).Canary != ""
		}
		before := get(small, "aaaa")
		if before && !get(large, "aaaa") {
			r.Fatal("a larger percentage has lost a workload")
		}
		if before != get(small, "bbbb") {
			r.Fatal("a later ReplicaSet of the Deployment gets another version")
		}
		if get(0, "aaaa") || !get(100, "aaaa") {
			r.Fatal("0 % selects somebody, or 100 % not everybody")
		}
	})
}
