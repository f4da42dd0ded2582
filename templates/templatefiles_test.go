package templates

import (
	"fmt"
	"strings"
	"testing"
)

const withFiles = `parameters: [{name: port, type: integer, default: 80}, {name: extra, type: string}]
files:
  a.conf: "port ${params.port}\n\ttab\r\n$${HOME}\x01 ${pod.spec.containers[0].name}\n\n"
  b: plain
  c: "${params.?extra}"
inject:
  metadata: {annotations: {own: x}}
  spec:
    containers: [{name: s, image: s, volumeMounts: [{name: t-files, mountPath: /etc/s}]}]
    volumes: [{name: v, emptyDir: {}}]`

func TestFilesBecomeAnnotationsAndOneVolume(t *testing.T) {
	tmpl := compiled(t, withFiles)
	got := rendered(t, tmpl, Input{Pod: onePod(t, map[string]string{"t.pillion.dev/port": "81"})})
	wantFragment(t, got.Fragment, `{"metadata":{"annotations":{"own":"x","t.files.pillion.dev/a.conf":"port 81\n\ttab\r\n${HOME}\u0001 app\n\n","t.files.pillion.dev/b":"plain"}},
		"spec":{"containers":[{"name":"s","image":"s","volumeMounts":[{"name":"t-files","mountPath":"/etc/s"}]}],
		"volumes":[{"name":"v","emptyDir":{}},{"name":"t-files","downwardAPI":{"items":[
			{"path":"a.conf","fieldRef":{"fieldPath":"metadata.annotations['t.files.pillion.dev/a.conf']"}},{"path":"b","fieldRef":{"fieldPath":"metadata.annotations['t.files.pillion.dev/b']"}}]}}]}}`)
	if got.Files == nil || len(got.Files.Texts) != 2 {
		t.Errorf("files %v", got.Files)
	}
	third := rendered(t, tmpl, Input{Pod: onePod(t, map[string]string{"t.pillion.dev/extra": ""})})
	if text, ok := third.Files.Texts["t.files.pillion.dev/c"]; !ok || text != "" {
		t.Errorf("an empty file is %q, %v", text, ok)
	}
}

func TestATemplateThatGivesNothingHasNoFiles(t *testing.T) {
	tmpl := compiled(t, "files: {a: x}\ninject: {spec: {containers: [{$if: 'pod.spec.?hostNetwork.orValue(false)', name: s, image: s, volumeMounts: [{name: t-files, mountPath: /etc/s}]}]}}")
	if got := rendered(t, tmpl, Input{Pod: onePod(t, nil)}); got.Fragment != nil || got.Files != nil {
		t.Errorf("%v, %v", got.Fragment, got.Files)
	}
}

func TestFilesAreBounded(t *testing.T) {
	const mounted = "inject: {spec: {containers: [{name: s, image: s, volumeMounts: [{name: t-files, mountPath: /e}]}]}}"
	long := strings.Repeat("n", 58)
	text := strings.Replace(string(manifestOf("files: {a: x}\n"+strings.ReplaceAll(mounted, "t-files", long+"-files"))), "name: t}", "name: "+long+"}", 1)
	if _, _, err := Compile([]byte(text), Options{}); err == nil || !strings.Contains(err.Error(), "a template with files has a name of at most 57") {
		t.Errorf("a long name: %v", err)
	}
	if _, _, err := Compile([]byte(strings.ReplaceAll(text, long, long[1:])), Options{}); err != nil {
		t.Errorf("a name of 57: %v", err)
	}
	many := "files: {"
	for i := range 65 {
		many += fmt.Sprintf("f%d: x, ", i)
	}
	if _, _, err := Compile(manifestOf(many+"}\n"+mounted), Options{}); err == nil || !strings.Contains(err.Error(), "has 65 files; at most 64") {
		t.Errorf("many: %v", err)
	}
}
