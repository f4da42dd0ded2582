package injector

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"

	"github.com/pillion-dev/pillion/templates/templatestest"
)

// labelsOf returns the labels of a pod, in the order of their keys.
func labelsOf(pod map[string]any) string {
	metadata, _ := pod["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	return strings.TrimPrefix(fmt.Sprint(labels), "map")
}

func labelled(t *testing.T, inject string, labels map[string]any) map[string]any {
	t.Helper()
	pod := askingPod(t, `"pillion.dev/inject":"`+inject+`"`)
	if labels != nil {
		pod["metadata"].(map[string]any)["labels"] = maps.Clone(labels)
	}
	return pod
}

const sideOfVersion = `inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "side:%s"}]}}`

func TestInjectedPodsHaveLabelsThatSayWhatTheRecordSays(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{"side": fmt.Sprintf(sideOfVersion, "1"), "other": `inject: {metadata: {labels: {own: "yes"}}}`, "nothing": `inject: {metadata: {labels: {$if: "false", a: b}}}`})
	hash := func(name string) string { e, _ := set.Get(name); return e.Template.Hash()[:10] }
	side, other := hash("side"), hash("other")
	for name, c := range map[string]struct {
		inject string
		labels map[string]any
		want   string
	}{
		"one template":          {"side", nil, "[pillion.dev/injected:true side.pillion.dev/hash:" + side + "]"},
		"beside the pod's":      {"side", map[string]any{"app": "web"}, "[app:web pillion.dev/injected:true side.pillion.dev/hash:" + side + "]"},
		"two templates":         {"other,side", nil, "[other.pillion.dev/hash:" + other + " own:yes pillion.dev/injected:true side.pillion.dev/hash:" + side + "]"},
		"forged ones":           {"side", map[string]any{"pillion.dev/injected": "no", "side.pillion.dev/hash": "forged"}, "[pillion.dev/injected:true side.pillion.dev/hash:" + side + "]"},
		"a template of nothing": {"side,nothing", nil, "[pillion.dev/injected:true side.pillion.dev/hash:" + side + "]"},
		"nothing at all":        {"nothing", map[string]any{"app": "web"}, "[app:web]"},
		"not asked for":         {"false", nil, "[]"},
	} {
		pod := labelled(t, c.inject, c.labels)
		out := injectOnce(t, set, pod)
		if got := labelsOf(out.Pod); got != c.want || !out.Allowed {
			t.Errorf("%s: labels %s, want %s (%s)", name, got, c.want, out.Message)
		}
		if again := injectOnce(t, set, out.Pod); len(again.Operations) > 0 {
			t.Errorf("%s: a second call changes %v", name, again.Operations)
		}
		rec, _ := record.Parse(out.Pod)
		if base, _ := rec.Uninject(out.Pod); encode(t, base) != encode(t, record.New().Base(pod)) {
			t.Errorf("%s: uninject gives %s", name, encode(t, base))
		}
	}
}

// A pod template copied from a live pod carries its labels and its record. They follow the
// template as it is now.
func TestLabelsCopiedFromALivePodAreBroughtUpToDate(t *testing.T) {
	before, now := templatestest.Specs(t, map[string]string{"side": fmt.Sprintf(sideOfVersion, "1")}), templatestest.Specs(t, map[string]string{"side": fmt.Sprintf(sideOfVersion, "2")})
	copied := injectOnce(t, before, labelled(t, "side", map[string]any{"app": "web"})).Pod
	withoutRecord := record.New().Base(copied)
	withoutRecord["metadata"].(map[string]any)["labels"] = copied["metadata"].(map[string]any)["labels"]
	delete(withoutRecord["spec"].(map[string]any), "initContainers")
	e, _ := now.Get("side")
	want := "[app:web pillion.dev/injected:true side.pillion.dev/hash:" + e.Template.Hash()[:10] + "]"
	for name, pod := range map[string]map[string]any{"with the record": copied, "without it": withoutRecord} {
		out := injectOnce(t, now, pod)
		if got := labelsOf(out.Pod); got != want || !out.Allowed || len(out.Warnings) > 0 {
			t.Errorf("%s: labels %s, want %s (%s, %q)", name, got, want, out.Message, out.Warnings)
		}
	}
}

func TestALabelThatSaysWhatIsNotSoGivesAWarningAndRefusesNothing(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{"side": fmt.Sprintf(sideOfVersion, "1")})
	for name, c := range map[string]struct {
		inject string
		labels map[string]any
		says   string // "" for no warning
	}{
		"nothing is injected":      {"false", map[string]any{"pillion.dev/injected": "true", "side.pillion.dev/hash": "0123456789"}, "pillion.dev/injected, side.pillion.dev/hash"},
		"another template":         {"side", map[string]any{"vault.pillion.dev/hash": "0123456789"}, "vault.pillion.dev/hash"},
		"injected is not true":     {"false", map[string]any{"pillion.dev/injected": ""}, "pillion.dev/injected"},
		"too many to list":         {"false", map[string]any{"a.pillion.dev/hash": "1", "b.pillion.dev/hash": "1", "c.pillion.dev/hash": "1", "d.pillion.dev/hash": "1", "e.pillion.dev/hash": "1"}, "d.pillion.dev/hash;"},
		"nobody's template":        {"side", map[string]any{"a.b.pillion.dev/hash": "mine", "example.com/hash": "mine", "pillion.dev/hash": "mine"}, ""},
		"overwritten, and so true": {"side", map[string]any{"pillion.dev/injected": "false"}, ""},
	} {
		out := injectOnce(t, set, labelled(t, c.inject, c.labels))
		said := strings.Join(out.Warnings, "\n")
		if !out.Allowed || strings.Contains(said, "UntrueLabel: ") != (c.says != "") || !strings.Contains(said, c.says) || c.says != "" && !strings.Contains(said, "remove them") {
			t.Errorf("%s: allowed %v, %q; want %q", name, out.Allowed, said, c.says)
		}
		brief, open := NewPipeline(Config{}).DecideByMetadata(Request{Operation: "CREATE", Pod: labelled(t, c.inject, c.labels), Namespace: templates.Namespace{Name: "shop"}, Templates: set})
		if open == nil && strings.Join(brief.Warnings, "\n") != said {
			t.Errorf("%s: by the metadata alone the warnings are %q", name, brief.Warnings)
		}
	}
}

// Templates do not see the labels: what one injected decides about no other one.
func TestTemplatesDoNotSeeTheLabelsOfInjectedPods(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{"side": fmt.Sprintf(sideOfVersion, "1"),
		"reads": `inject: {metadata: {annotations: {seen: "${string(pod.metadata.?labels.orValue({}).size())}"}}}`})
	out := injectOnce(t, set, labelled(t, "reads,side", map[string]any{"pillion.dev/injected": "true", "reads.pillion.dev/hash": "x"}))
	if got := out.Pod["metadata"].(map[string]any)["annotations"].(map[string]any)["seen"]; got != "0" {
		t.Errorf("the template counts %v labels", got)
	}
	for _, key := range []string{"pillion.dev/injected", "side.pillion.dev/hash"} {
		_, _, err := templates.Compile([]byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: t}\nspec:\n  match: {podSelector: {matchLabels: {"+key+": x}}}\n  inject: {metadata: {labels: {a: b}}}\n"), templates.Options{})
		if err == nil || !strings.Contains(err.Error(), "that templates do not see") {
			t.Errorf("a selector by %s: %v", key, err)
		}
	}
}
