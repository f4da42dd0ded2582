package templates

import (
	"fmt"
	"strings"
	"testing"
)

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
