package injector

import (
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"

	"github.com/pillion-dev/pillion/templates/templatestest"
)

// podFor returns a pod with fields of its spec, as JSON, in front of its container.
func podFor(t testing.TB, annotations, spec string) map[string]any {
	t.Helper()
	return podOf(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","annotations":{`+annotations+`}},"spec":{`+spec+`"containers":[{"name":"web","image":"web:1"}]}}`)
}

const (
	osWindows       = `"os":{"name":"windows"},`
	selectorWindows = `"nodeSelector":{"kubernetes.io/os":"windows"},`
)

var bySystem = map[string]string{
	"penguin": `inject: {metadata: {labels: {penguin: "yes"}}}`,
	"pane":    "os: [windows]\n  " + `inject: {metadata: {labels: {pane: "yes"}}}`,
	"both":    "os: [windows, linux]\n  " + `inject: {metadata: {labels: {both: "yes"}}}`,
}

func TestAPodGetsTheTemplatesForItsOperatingSystemAndAWarningForOthersThatItAsksFor(t *testing.T) {
	linux, windows := "both,penguin", "both,pane"
	for _, c := range []struct{ spec, want string }{
		{"", linux}, {`"os":{"name":"linux"},`, linux}, {`"os":null,"nodeSelector":null,`, linux}, {`"nodeSelector":{"disk":"fast"},`, linux}, {`"nodeSelector":{"kubernetes.io/os":""},`, linux},
		{osWindows, windows}, {selectorWindows, windows}, {osWindows + selectorWindows, windows},
		{`"os":{"name":"linux"},` + selectorWindows, linux}, {osWindows + `"nodeSelector":{"kubernetes.io/os":"linux"},`, windows},
		{`"nodeSelector":{"kubernetes.io/os":"freebsd"},`, ""},
	} {
		out := injectOnce(t, templatestest.Specs(t, bySystem), podFor(t, `"pillion.dev/inject":"both,pane,penguin"`, c.spec))
		var got, others []string
		for _, o := range out.Templates {
			switch o.Code {
			case reason.Injected:
				got = append(got, o.Name)
			case reason.OtherSystem:
				others = append(others, o.Name)
			}
		}
		if !out.Allowed || strings.Join(got, ",") != c.want || len(got)+len(others) != 3 || len(out.Warnings) != len(others) {
			t.Errorf("%s: injected %q, others %q, warnings %q: %s", c.spec, got, others, out.Warnings, out.Message)
		}
		for _, name := range others {
			if !strings.Contains(strings.Join(out.Warnings, "\n"), "OtherSystem: without "+name+": the pod is for ") {
				t.Errorf("%s: no warning about %s in %q", c.spec, name, out.Warnings)
			}
		}
	}
}

// A tenant who says that a Linux pod is for Windows gains nothing where a template is required.
func TestAPodForAnotherSystemIsRefusedWhereATemplateIsRequired(t *testing.T) {
	for _, spec := range []string{osWindows, selectorWindows} {
		text := strings.Replace(plainPod, `"spec":{`, `"spec":{`+spec, 1)
		for _, pod := range []string{text, strings.Replace(text, `"name":"web"}`, `"name":"web","annotations":{"pillion.dev/inject":"false"}}`, 1)} {
			request := Request{Operation: "CREATE", Pod: podOf(t, pod), Namespace: shop, Templates: requiredSet(t)}
			out, err := NewPipeline(Config{}).Inject(t.Context(), request)
			if err != nil || out.Allowed || out.Code != reason.OtherSystem || len(out.Refusals) != 1 || out.Refusals[0].Name != "audit" {
				t.Fatalf("%s: %+v, %v", pod, out, err)
			}
			if !strings.Contains(out.Message, `template audit: the pod is for "windows" (spec.`) || !strings.Contains(out.Message, "it is required here: ask the cluster's admin for a template that serves this system or exempts it") {
				t.Errorf("message %s", out.Message)
			}
			verified, err := NewPipeline(Config{}).Verify(t.Context(), request)
			if err != nil || verified.Allowed || verified.Code != reason.RequiredMissing || !strings.Contains(verified.Message, "template audit: the pod is for \"windows\"") {
				t.Errorf("verified %v: %s, %v", verified.Allowed, verified.Message, err)
			}
		}
		// A record that says that Pillion wrote the field hides it from no required template.
		pod := podOf(t, text)
		pod["metadata"].(map[string]any)["annotations"] = map[string]any{statusKey: forged(t, map[string]string{"audit": "0"}, map[string]string{"spec.os": `{"sum":"0"}`, "spec.nodeSelector": `{"sum":"0"}`})}
		out, err := NewPipeline(Config{}).Inject(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: shop, Templates: requiredSet(t)})
		if err != nil || out.Allowed {
			t.Errorf("with a forged record: %v: %s", err, out.Message)
		}
	}
}

// A pod of another system that says so itself cannot run elsewhere. So a condition can exempt it.
func TestAConditionExemptsPodsOfASystemThatARequiredTemplateLists(t *testing.T) {
	set := requiredSet(t, "  required: true", "  required: true\n  os: [linux, windows]", `"!pod.spec.?hostNetwork.orValue(false)"`, `"pod.spec.?os.?name.or(pod.spec.?nodeSelector[?'kubernetes.io/os']).orValue('linux') == 'linux'"`)
	for spec, injected := range map[string]bool{osWindows: false, selectorWindows: false, "": true} {
		pod := podOf(t, strings.Replace(plainPod, `"spec":{`, `"spec":{`+spec, 1))
		out, err := NewPipeline(Config{}).Inject(t.Context(), Request{Operation: "CREATE", Pod: pod, Namespace: shop, Templates: set})
		if err != nil || !out.Allowed || hasAudit(out.Pod) != injected {
			t.Errorf("%s: %v: %s", spec, err, out.Message)
		}
	}
}
