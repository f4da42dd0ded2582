package injector

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/templates/podschema"

	"github.com/pillion-dev/pillion/templates/templatestest"
)

const fileTemplate = `parameters: [{name: level, type: string, default: info}]
  files: {a.conf: "level ${params.level}\n", b: "of ${pod.metadata.?name.orValue('')}"}
  inject: {spec: {initContainers: [{name: side, image: "side:1", restartPolicy: Always, volumeMounts: [{name: side-files, mountPath: /etc/side}]}]}}`

// A pod gets the template's files and no others, whatever it brings along: an annotation, a
// volume, or a record that says that Pillion wrote either.
func TestAPodCannotBringFilesOfItsOwn(t *testing.T) {
	for _, onConflict := range []string{"Deny", "KeepPod"} {
		set := templatestest.Specs(t, map[string]string{"side": "onConflict: " + onConflict + "\n  " + fileTemplate})
		ask := `"pillion.dev/inject":"side"`
		injected := injectOnce(t, set, askingPod(t, ask)).Pod
		change := func(key, value string) map[string]any {
			pod := podOf(t, string(podschema.Encode(injected)))
			annotationsOf(pod)[key] = value
			return pod
		}
		volume := podOf(t, string(podschema.Encode(askingPod(t, ask))))
		volume["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "side-files", "configMap": map[string]any{"name": "mine"}}}
		forgedVolume := podOf(t, strings.Replace(string(podschema.Encode(injected)), `"path":"a.conf"`, `"path":"other"`, 1))
		older := change("side.pillion.dev/level", "debug")
		annotationsOf(older)["side.files.pillion.dev/a.conf"] = "mine"
		for name, c := range map[string]struct {
			pod  map[string]any
			says string
		}{
			"an annotation":                       {askingPod(t, ask+`,"side.files.pillion.dev/a.conf":"mine"`), `"side.files.pillion.dev/a.conf" of the pod differs from the template's file`},
			"an empty annotation":                 {askingPod(t, ask+`,"side.files.pillion.dev/b":""`), `"side.files.pillion.dev/b"`},
			"a changed one, with the record":      {change("side.files.pillion.dev/a.conf", "mine"), "run pillion uninject"},
			"a changed one, with an older record": {older, `"side.files.pillion.dev/a.conf"`},
			"a volume":                            {volume, "side-files"},
			"a changed volume, with the record":   {forgedVolume, `the pod has a volume "side-files" of its own`},
		} {
			out := injectOnce(t, set, c.pod)
			if out.Allowed || out.Code != reason.Conflict || !strings.Contains(out.Message, c.says) {
				t.Errorf("%s, %s: allowed %v: %s; want %s", onConflict, name, out.Allowed, out.Message, c.says)
			}
		}
	}
	overwriting := templatestest.Specs(t, map[string]string{"side": "onConflict: Overwrite\n  " + fileTemplate})
	if out := injectOnce(t, overwriting, askingPod(t, `"pillion.dev/inject":"side","side.files.pillion.dev/a.conf":"mine"`)); out.Allowed {
		t.Errorf("allowed: %v", annotationsOf(out.Pod))
	}
}

// A copy of a live pod, and one with the very text of a file, are as good as any.
func TestAPodMayHaveTheFilesAlready(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{"side": fileTemplate})
	same := injectOnce(t, set, askingPod(t, `"pillion.dev/inject":"side","side.files.pillion.dev/a.conf":"level info\n"`))
	if !same.Allowed || len(same.Warnings) > 0 {
		t.Errorf("the same text: %s, %q", same.Message, same.Warnings)
	}
	copied := injectOnce(t, set, askingPod(t, `"pillion.dev/inject":"side"`)).Pod
	newer := templatestest.Specs(t, map[string]string{"side": strings.Replace(fileTemplate, "level $", "LEVEL $", 1)})
	out := injectOnce(t, newer, copied)
	if !out.Allowed || annotationsOf(out.Pod)["side.files.pillion.dev/a.conf"] != "LEVEL info\n" {
		t.Errorf("a copy under a newer template: %s, %v", out.Message, annotationsOf(out.Pod))
	}
	renamed := podOf(t, strings.Replace(string(podschema.Encode(copied)), `"name":"web","annotations"`, `"name":"other","annotations"`, 1))
	renamed["metadata"].(map[string]any)["name"] = "other"
	if out := injectOnce(t, set, renamed); !out.Allowed || annotationsOf(out.Pod)["side.files.pillion.dev/b"] != "of other" {
		t.Errorf("a copy of another name: %s, %v", out.Message, annotationsOf(out.Pod))
	}
}

func TestFilesThatThePodCannotHoldRefuseItWithTheirSize(t *testing.T) {
	set := templatestest.Specs(t, map[string]string{
		"small": "files: {a: x}\n  inject: {spec: {hostname: a}}",
		"side":  strings.Replace(fileTemplate, `b: "of ${pod.metadata.?name.orValue('')}"`, `b: "${pod.metadata.?annotations[?'text'].orValue('')}${pod.metadata.?annotations[?'text'].orValue('')}"`, 1),
	})
	out := injectOnce(t, set, askingPod(t, fmt.Sprintf(`"pillion.dev/inject":"side,small","text":%q`, strings.Repeat("x", 90_000))))
	if out.Allowed || out.Code != reason.TemplateTooExpensive || !strings.Contains(out.Message, "template side: the pod's annotations would have 270") ||
		!strings.Contains(out.Message, "the API allows 262144; the template's files take 180") {
		t.Errorf("allowed %v, %s", out.Allowed, out.Message)
	}
}
