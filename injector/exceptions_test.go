package injector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates"
)

// legacy excepts the pods with the label app: batch.
const legacy = `  required: true
  exceptions:
  - {name: legacy, podSelector: {matchLabels: {app: batch}}, until: "2027-03-31T00:00:00Z", reason: "OPS-1: moves in March"}
`

var legacyEnds = time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)

func exceptedSet(t testing.TB) *templates.Set { return requiredSet(t, "  required: true\n", legacy) }

func hasAudit(pod map[string]any) bool {
	return slices.ContainsFunc(itemsOf(pod, "initContainers"), func(c map[string]any) bool { return nameOf(c) == "audit" })
}

func injectAt(t testing.TB, set *templates.Set, pod map[string]any, now time.Time) Outcome {
	t.Helper()
	out, err := NewPipeline(Config{}).Inject(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: shop, Templates: set, Now: now, Explain: true})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func verifyAt(t testing.TB, set *templates.Set, pod map[string]any, now time.Time) string {
	t.Helper()
	return verifyRequired(t, set, Request{Operation: "CREATE", Pod: pod, Now: now}, nil)
}

func TestAnExceptedPodGoesWithoutTheTemplateUntilTheEnd(t *testing.T) {
	const label, asks, out = `{"op":"add","path":"/metadata/labels","value":{"app":"batch"}}`,
		`{"op":"add","path":"/metadata/annotations","value":{"pillion.dev/inject":"audit"}}`, `{"op":"add","path":"/metadata/annotations","value":{"pillion.dev/inject":"false"}}`
	const warning = "Excepted: without audit: it is required here, and the pod is excepted until 2027-03-31T00:00:00Z by the exception legacy: OPS-1: moves in March"
	set := exceptedSet(t)
	for _, c := range []struct {
		why, change     string
		at              time.Time
		injected, tells bool
	}{
		{"an excepted pod", label, legacyEnds.Add(-time.Second), false, true},
		{"one that opts out", label + "," + out, legacyEnds.Add(-time.Second), false, true},
		{"one that asks", label + "," + asks, legacyEnds.Add(-time.Second), true, false},
		{"at the end", label, legacyEnds, true, false},
		{"one that opts out, at the end", label + "," + out, legacyEnds, true, false},
		{"another pod", asks, legacyEnds.Add(-time.Second), true, false},
		{"another pod that opts out", out, legacyEnds.Add(-time.Second), true, false},
	} {
		pod := patched(t, podOf(t, plainPod), "["+c.change+"]")
		got := injectAt(t, set, pod, c.at)
		injected := hasAudit(got.Pod)
		if !got.Allowed || injected != c.injected || slices.Contains(got.Warnings, warning) != c.tells {
			t.Errorf("%s: %q, injected %t, warnings %q", c.why, got.Message, injected, got.Warnings)
		}
		for _, template := range got.Templates {
			if told := template.Code == reason.Excepted && template.Exception == "legacy"; template.Name == "audit" && told != c.tells {
				t.Errorf("%s: %+v", c.why, template)
			}
		}
		if says := verifyAt(t, set, got.Pod, c.at); says != "" {
			t.Errorf("%s: not verified: %s", c.why, says)
		}
		// The final pod without the sidecar passes where the pod may go without it.
		if says := verifyAt(t, set, pod, c.at); (says == "") != (!c.injected || strings.Contains(c.why, "one that asks")) {
			t.Errorf("%s: the pod as it was is verified: %q", c.why, says)
		}
		again := injectAt(t, set, got.Pod, c.at)
		if len(again.Operations) > 0 || len(again.Warnings) != len(got.Warnings) {
			t.Errorf("%s: a second call: %v %q", c.why, again.Operations, again.Warnings)
		}
	}
	steps := fmt.Sprint(injectAt(t, set, patched(t, podOf(t, plainPod), "["+label+"]"), legacyEnds).Steps)
	if !strings.Contains(steps, "it was excepted until 2027-03-31T00:00:00Z by the exception legacy") {
		t.Errorf("the exception that ended is not explained: %s", steps)
	}
}

// Until it ends, an exception makes the template one that is neither required nor matching; after
// that, there is no exception.
func TestAnExceptionIsATemplateThatIsNotRequiredAndThenNoException(t *testing.T) {
	with, without := exceptedSet(t), requiredSet(t)
	optional := requiredSet(t, "  required: true\n", "", audit[strings.Index(audit, "  match:"):strings.Index(audit, "  required:")], "", `  verify: {images: ["mirror.example.com/audit:*", "registry.example.com/audit:1*"]}`+"\n", "")
	rapid.Check(t, func(rt *rapid.T) {
		changes := []string{`{"op":"add","path":"/metadata/labels","value":{"app":"batch","tier":` + rapid.SampledFrom([]string{`"a"`, `"b"`}).Draw(rt, "tier") + `}}`}
		if asks := rapid.SampledFrom([]string{"", "audit", "+audit", "true", "false", "-helper", "-audit", "helper"}).Draw(rt, "asks"); asks != "" {
			changes = append(changes, fmt.Sprintf(`{"op":"add","path":"/metadata/annotations","value":{"pillion.dev/inject":%q}}`, asks))
		}
		if rapid.Bool().Draw(rt, "conflict") {
			changes = append(changes, `{"op":"add","path":"/spec/volumes","value":[{"name":"audit","hostPath":{"path":"/x"}}]}`)
		}
		pod := patched(t, podOf(t, plainPod), "["+strings.Join(changes, ",")+"]")
		before, after := injectAt(t, with, pod, legacyEnds.Add(-time.Nanosecond)), injectAt(t, with, pod, legacyEnds.Add(rapid.Custom(func(rt *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 1e9).Draw(rt, "after")) * time.Microsecond
		}).Draw(rt, "d")))
		for name, c := range map[string]struct{ got, want Outcome }{
			"before": {before, injectAt(t, optional, pod, legacyEnds)},
			"after":  {after, injectAt(t, without, pod, legacyEnds)},
		} {
			if c.got.Allowed != c.want.Allowed || encode(t, c.got.Pod["spec"]) != encode(t, c.want.Pod["spec"]) {
				rt.Errorf("%s the end: %s\n%s\nwant %s\n%s", name, c.got.Message, encode(t, c.got.Pod["spec"]), c.want.Message, encode(t, c.want.Pod["spec"]))
			}
		}
	})
}

// A record says what a pod was before Pillion. A forged one cannot say that the pod had the label of
// an exception.
func TestAForgedRecordExceptsNobody(t *testing.T) {
	set := exceptedSet(t)
	for why, entries := range map[string]map[string]string{
		"an original label":             {"metadata.labels[app]": `{"sum":"0","was":"batch"}`},
		"a label that was taken away":   {"metadata.labels[app]": `{"was":"batch"}`},
		"labels that we made, and were": {"metadata.labels": `{"made":true,"was":{"app":"batch"}}`},
	} {
		text := forged(t, map[string]string{"audit": "h"}, entries)
		pod := patched(t, podOf(t, plainPod), fmt.Sprintf(`[{"op":"add","path":"/metadata/labels","value":{"app":"web"}},{"op":"add","path":"/metadata/annotations","value":{"pillion.dev/status":%q}}]`, text))
		got := injectAt(t, set, pod, legacyEnds.Add(-time.Hour))
		if !hasAudit(got.Pod) {
			t.Errorf("%s: not injected: %s %q", why, got.Message, got.Warnings)
		}
		if says := verifyAt(t, set, pod, legacyEnds.Add(-time.Hour)); says == "" {
			t.Errorf("%s: the pod without its sidecar passes", why)
		}
	}
}

// A pod that was made under an exception goes on after its end. A pod that was made with the sidecar
// cannot change it by setting the label of an exception.
func TestUpdatesOfAPodDependOnTheSidecarsThatItHas(t *testing.T) {
	// It fails for each of the pods, as they are now.
	failing := []string{"args: [--watch]", `args: ["${string(int(pod.metadata.?annotations['port'].orValue('1')))}"]`, "  required: true\n", legacy}
	set := requiredSet(t, failing...)
	const label = `{"op":"add","path":"/metadata/labels","value":{"app":"batch"}}`
	made := func(at time.Time, change string) map[string]any {
		return patched(t, podOf(t, plainPod), fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":{"port":"x"}},{"op":"add","path":"/metadata/creationTimestamp","value":%q}%s]`, at.UTC().Format(time.RFC3339), change))
	}
	withSidecar := patched(t, injectRequired(t, exceptedSet(t), podOf(t, plainPod)), `[{"op":"add","path":"/metadata/creationTimestamp","value":"2027-03-01T00:00:00Z"},{"op":"add","path":"/metadata/labels/app","value":"batch"},{"op":"add","path":"/metadata/annotations/port","value":"x"}]`)
	const app, sidecar = `[{"op":"replace","path":"/spec/containers/0/image","value":"app:2"}]`, `[{"op":"replace","path":"/spec/initContainers/0/image","value":"evil:1"}]`
	for _, c := range []struct {
		why    string
		old    map[string]any
		change string
		passes bool
	}{
		{"a pod that was excepted gets another image", made(legacyEnds.Add(-time.Hour), ","+label), app, true},
		{"a pod that was never excepted, and lacks the sidecar", made(legacyEnds.Add(-time.Hour), ""), app, false},
		{"a pod that was made after the end", made(legacyEnds, ","+label), app, false},
		{"the sidecar's image, with the label", withSidecar, sidecar, false},
		{"the app's image beside a sidecar, with the label", withSidecar, app, false},
	} {
		for _, at := range []time.Time{legacyEnds.Add(-time.Minute), legacyEnds.Add(time.Hour)} {
			says := verifyRequired(t, set, Request{Operation: "UPDATE", Pod: patched(t, c.old, c.change), Now: at}, c.old)
			if (says == "") != c.passes {
				t.Errorf("%s, at %s: %q", c.why, at, says)
			}
		}
	}
}
