package injector

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

func askingPod(t testing.TB, annotations string) map[string]any {
	t.Helper()
	return podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","annotations":{`+annotations+`}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`)
}

// injectIn injects into a pod that is created in the namespace.
func injectIn(t interface{ Fatal(...any) }, in templates.Namespace, set *templates.Set, pod map[string]any) Outcome {
	out, err := NewPipeline(Config{}).Inject(context.Background(), Request{Operation: "CREATE", Pod: pod, Namespace: in, Templates: set})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// injectOnce is injectIn for a namespace that says nothing.
func injectOnce(t interface{ Fatal(...any) }, set *templates.Set, pod map[string]any) Outcome {
	return injectIn(t, templates.Namespace{Name: "shop"}, set, pod)
}

// A template selects by the labels that those before it left, so the order decides.
func TestATemplateSelectsByALabelThatAnEarlierOneSets(t *testing.T) {
	for _, c := range []struct {
		why, required, order string
		selects              bool
	}{
		{"after it", "", "", true},
		{"before it", "", "order: -1", false},
		{"required", "required: true", "order: -1", true},
	} {
		set := templatestest.Specs(t, map[string]string{
			"labels":  `inject: {metadata: {labels: {mesh: "on"}}}`,
			"matches": c.required + "\n  " + c.order + "\n  " + `match: {podSelector: {matchLabels: {mesh: "on"}}}` + "\n  " + `inject: {spec: {initContainers: [{name: mesh, image: "mesh:1"}]}}`,
		})
		first := injectOnce(t, set, askingPod(t, `"pillion.dev/inject":"+labels"`))
		second := injectOnce(t, set, first.Pod)
		if got := len(itemsOf(first.Pod, "initContainers")) == 1; !first.Allowed || !second.Allowed || len(second.Operations) > 0 || got != c.selects {
			t.Errorf("%s: the first call: %v %s; the second call changes %v", c.why, got, first.Message, second.Operations)
		}
	}
}

func TestALargeRecordOfSomebodyElseRefusesThePod(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{"side": `inject: {spec: {initContainers: [{name: side, image: "side:1"}]}}`})
	forged := record.New()
	forged.Templates["unknown"] = strings.Repeat("h", record.MaxBytes-100)
	pod := askingPod(t, fmt.Sprintf(`"pillion.dev/inject":"side","pillion.dev/status":%q`, forged.Encode()))
	if rec, err := record.Parse(pod); err != nil || rec.Hash("unknown") == "" {
		t.Fatalf("the record is not read: %v", err)
	}
	out := injectOnce(t, set, pod)
	if out.Allowed || out.Code != reason.TemplateTooExpensive || !strings.HasPrefix(out.Message, "template side: the record of what was injected would have 196") ||
		!strings.Contains(out.Message, "remove the annotation from the pod") {
		t.Errorf("allowed %v: %s", out.Allowed, out.Message)
	}
}

func TestATemplateThatNobodyAskedForGivesNoWarning(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{"some": "match: {podSelector: {}}\n  " + `matchConditions: [{name: never, expression: "false", message: never}]` + "\n  " + `inject: {metadata: {labels: {a: b}}}`})
	for asks, warned := range map[string]bool{"": false, `"pillion.dev/inject":"some"`: true} {
		out := injectOnce(t, set, askingPod(t, asks))
		if (len(out.Warnings) > 0) != warned || len(out.Templates) != 1 || out.Templates[0].Code != reason.ConditionFalse {
			t.Errorf("%q: warnings %q, outcomes %+v", asks, out.Warnings, out.Templates)
		}
	}
}

func TestAFalseValidationRefusesThePodWhateverOnErrorSays(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{"side": "onError: Skip\n  " + `validations: [{name: net, expression: "!pod.spec.?hostNetwork.orValue(false)", message: "leave hostNetwork out"}]` + "\n  " +
		`inject: {spec: {initContainers: [{name: side, image: "side:1"}]}}`})
	pod := askingPod(t, `"pillion.dev/inject":"side"`)
	if out := injectOnce(t, set, pod); !out.Allowed || out.Code != reason.Injected {
		t.Errorf("it holds: %s", out.Message)
	}
	pod["spec"].(map[string]any)["hostNetwork"] = true
	out := injectOnce(t, set, pod)
	if out.Allowed || out.Code != reason.ValidationFailed || !strings.HasPrefix(out.Message, "template side: leave hostNetwork out (ValidationFailed)") {
		t.Errorf("it is false: %s", out.Message)
	}
}

// Whoever wrote the annotation of a parameter that does not exist wants something. The
// template's onError decides, as with a bad value; who does not get the template is not asked.
func TestAnUnknownParameterIsABadOne(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{
		"side":  "parameters: [{name: level, type: string, default: info}]\n  " + `inject: {spec: {initContainers: [{name: side, image: "side:${params.level}"}]}}`,
		"skips": "onError: Skip\n  " + `inject: {metadata: {labels: {skips: "no"}}}`,
	})
	for name, c := range map[string]struct {
		pod, namespace map[string]string
		code           reason.Code
		says           string
	}{
		"on the pod":              {map[string]string{"pillion.dev/inject": "side", "side.pillion.dev/levle": "debug"}, nil, reason.BadParameter, `annotation side.pillion.dev/levle on the pod: the template side has no such parameter; did you mean level?`},
		"on the namespace":        {map[string]string{"pillion.dev/inject": "side"}, map[string]string{"side.pillion.dev/levle": "debug"}, reason.BadParameter, "annotation side.pillion.dev/levle on the namespace"},
		"of a template not asked": {map[string]string{"pillion.dev/inject": "false", "side.pillion.dev/levle": "debug"}, map[string]string{"skips.pillion.dev/x": "y"}, reason.PodOptedOut, ""},
		"onError Skip":            {map[string]string{"pillion.dev/inject": "skips", "skips.pillion.dev/x": "y"}, nil, reason.BadParameter, "BadParameter: without skips: annotation skips.pillion.dev/x on the pod"},
	} {
		annotations := map[string]any{}
		for key, value := range c.pod {
			annotations[key] = value
		}
		pod := askingPod(t, "")
		pod["metadata"].(map[string]any)["annotations"] = annotations
		out, err := NewPipeline(Config{}).Inject(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: templates.Namespace{Name: "shop", Annotations: c.namespace}, Templates: set})
		said := out.Message + strings.Join(out.Warnings, "\n")
		if err != nil || out.Code != c.code || out.Allowed != (c.code == reason.PodOptedOut || name == "onError Skip") || !strings.Contains(said, c.says) || c.says == "" && said != "" {
			t.Errorf("%s: %s %v %q %v; want %s %q", name, out.Code, out.Allowed, said, err, c.code, c.says)
		}
	}
}

// A tenant cannot hold a slot for twenty templates that each cost what all may.
func TestTheExpressionsOfAllTemplatesHaveOneBudget(t *testing.T) {
	const ten = "[0,1,2,3,4,5,6,7,8,9]"
	loop := fmt.Sprintf("%[1]s.map(a, %[1]s.map(b, %[1]s.map(c, [1,2,3].map(d, d)).size()).size()).size()", ten)
	specs := map[string]string{}
	for i := range 12 {
		specs[fmt.Sprint("slow-", i)] = fmt.Sprintf(`match: {}`+"\n  "+`inject: {metadata: {annotations: {"slow.example.com/%d": "${string(%s)}"}}}`, i, loop)
	}
	pod := func() map[string]any { return askingPod(t, "") }
	one := map[string]string{"slow-0": specs["slow-0"]}
	if out := injectOnce(t, templatestest.Specs(t, one), pod()); !out.Allowed {
		t.Fatalf("one template: %s", out.Message)
	}
	if out := injectOnce(t, templatestest.Specs(t, specs), pod()); out.Allowed || out.Code != reason.TemplateTooExpensive || !strings.Contains(out.Message, "the expressions of all templates of the pod together cost more than") {
		t.Errorf("twelve templates: %s, %s", out.Code, out.Message)
	}
}
