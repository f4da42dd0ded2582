package admissionpolicy

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The policy excepts whom the template's exceptions do, by the time at which the API server creates
// the pod. Its author's own creationTimestamp never gets there.
func TestThePolicySparesThePodsThatPillionExcepts(t *testing.T) {
	tmpl := compiled(t, "mesh", `{required: true, match: {namespaceSelector: {matchLabels: {team: shop}}},
  exceptions: [
    {name: a, namespaceSelector: {matchLabels: {tier: x}, matchExpressions: [{key: zone, operator: DoesNotExist}]}, podSelector: {matchExpressions: [{key: app, operator: In, values: [batch, cron]}]}, until: "2027-03-31T00:00:00Z", reason: OPS-1},
    {name: b, podSelector: {matchExpressions: [{key: old, operator: Exists}, {key: app, operator: NotIn, values: [web]}]}, until: "2027-03-30T20:00:00.5-04:00", reason: OPS-2},
    {name: c, namespaceSelector: {matchLabels: {tier: z}}, until: "2026-01-01T00:00:00Z", reason: OPS-3}],
  inject: {spec: {initContainers: [{name: mesh, image: "mesh:1", restartPolicy: Always}]}}}`, nil)
	floor := floorOf(t, tmpl)
	e := newEvaluator(t, floor)
	if passes := strings.Join(floor.Passes, "\n"); !strings.Contains(passes, "new pods that the exception a selects, until 2027-03-31T00:00:00Z: OPS-1") {
		t.Errorf("it says that it lets pass\n%s", passes)
	}
	end := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		labels := func(name string, values map[string][]string) map[string]string {
			all := map[string]string{}
			for _, key := range []string{"team", "tier", "zone", "app", "old"} {
				if v := rapid.SampledFrom(append([]string{""}, values[key]...)).Draw(rt, name+" "+key); v != "" {
					all[key] = v
				}
			}
			return all
		}
		namespace, pod := labels("namespace", map[string][]string{"tier": {"x", "z"}, "zone": {"1"}}), labels("pod", map[string][]string{"app": {"batch", "cron", "web"}, "old": {"1"}})
		created := end.Add(time.Duration(rapid.SampledFrom([]int{-500 * 86400, -86400, -1, 0, 1, 86400}).Draw(rt, "at")) * time.Second)
		metadata := map[string]any{"name": "web", "creationTimestamp": created.Format(time.RFC3339), "labels": pod}
		refusal, _ := e.judge(t, request{pod: map[string]any{"metadata": metadata, "spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web"}}}}, namespace: namespace})
		exception := tmpl.Exceptions().Find(namespace, pod)
		excepted := exception != nil && !exception.Ended(created)
		if spared := refusal == ""; spared != excepted || !spared && !strings.Contains(refusal, "lacks its init container mesh") {
			rt.Errorf("%v, %v at %s: excepted %t, and the policy says %q", namespace, pod, created, excepted, refusal)
		}
	})
	// Another image in the sidecar of a running pod is refused all the same.
	pod := func(image string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "web", "creationTimestamp": "2026-12-01T00:00:00Z", "labels": map[string]any{"old": "1"}},
			"spec": map[string]any{"initContainers": []any{map[string]any{"name": "mesh", "image": image}}, "containers": []any{map[string]any{"name": "web", "image": "web"}}}}
	}
	if refusal, _ := e.judge(t, request{pod: pod("evil:1"), old: pod("mesh:1")}); !strings.Contains(refusal, "would get an image that the template does not allow") {
		t.Errorf("another image in an excepted pod: %q", refusal)
	}
}
