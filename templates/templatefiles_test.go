package templates

import (
	"errors"
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

func TestWhatFilesCannotBe(t *testing.T) {
	const mounted = "inject: {spec: {containers: [{name: s, image: s, volumeMounts: [{name: t-files, mountPath: /e}]}]}}"
	for name, c := range map[string]struct{ spec, at, want string }{
		"a name with a slash":  {"files: {a/b: x}\n" + mounted, "spec.files", "must be at most 63 letters"},
		"a name with dots":     {"files: {..: x}\n" + mounted, "spec.files", "must be at most 63 letters"},
		"an empty name":        {"files: {'': x}\n" + mounted, "spec.files", "must be at most 63 letters"},
		"a name too long":      {"files: {" + strings.Repeat("a", 64) + ": x}\n" + mounted, "spec.files", "at most 63"},
		"a number":             {"files: {a: 1}\n" + mounted, "spec.files.a", "text"},
		"a list":               {"files: {a: \"${['x']}\"}\n" + mounted, "spec.files.a", "text"},
		"an unknown parameter": {"files: {a: \"x ${params.nope}\"}\n" + mounted, "spec.files.a", "no parameter nope"},
		"a container":          {"files: {a: \"${container.name}\"}\n" + mounted, "spec.files.a", "items with $each"},
		"required":             {"required: true\nmatch: {podSelector: {matchLabels: {a: b}}}\nfiles: {a: x}\n" + mounted, "spec.files", "is not for required templates"},
		"a volume of the name": {"files: {a: x}\ninject: {spec: {containers: [{name: s, image: s, volumeMounts: [{name: t-files, mountPath: /e}]}], volumes: [{name: t-files, emptyDir: {}}]}}", "spec.files", "has a volume t-files of its own"},
		"a computed volume":    {"files: {a: x}\ninject: {spec: {volumes: [{name: \"t-${'files'}\", emptyDir: {}}]}}", "spec.files", "has a volume t-files of its own"},
		"one's own annotation": {"files: {a: x}\ninject: {metadata: {annotations: {t.files.pillion.dev/a: text}}}", "spec.inject.metadata.annotations", "reserved for Pillion"},
		"unset":                {"files: {a: x}\ninject: {metadata: {annotations: {$unset: [t.files.pillion.dev/a]}}}", "spec.inject.metadata.annotations", "reserved for Pillion"},
	} {
		_, _, err := Compile(manifestOf(c.spec), Options{})
		var broken *CompileError
		if !errors.As(err, &broken) || !strings.HasPrefix(broken.Problems[0].Path, c.at) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q at %s", name, err, c.want, c.at)
		}
	}
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

func TestTextInAFileIsAHazardAsAnyConfiguration(t *testing.T) {
	tmpl := compiled(t, "parameters: [{name: p, type: string, default: x}]\nfiles: {a: \"one\\ntwo ${params.p}\\n\"}\ninject: {spec: {containers: [{name: s, image: s, volumeMounts: [{name: t-files, mountPath: /e}]}]}}")
	if found := tmpl.TextHazards(); len(found) != 1 || !strings.HasPrefix(found[0].Path, "spec.files.a") {
		t.Errorf("%v", found)
	}
}
