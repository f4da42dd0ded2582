package cases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// The real pipeline changes nothing on a second call, so the test uses one that does.
func TestAPodThatChangesWhenItIsInjectedAgainFailsItsCase(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pod.yaml":  "kind: Pod\nmetadata: {name: web}\n",
		"want.yaml": "kind: Pod\nmetadata: {name: web, labels: {times: x}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	times := ""
	s := &suite{inject: func(injector.Request) (injector.Outcome, error) {
		times += "x"
		pod := map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "web", "labels": map[string]any{"times": times}}}
		return injector.Outcome{Allowed: true, Change: injector.Change{Pod: pod, Operations: make([]patch.Operation, 1)}}, nil
	}}
	compiled := templatestest.Compile(t, "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: side}\nspec: {inject: {metadata: {labels: {a: b}}}}\n")
	r := Result{}
	s.run(loaded{compiled: compiled, version: compiled}, &folderCase{root: root, result: &r})
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "-    times: x\n+    times: xx\n") {
		t.Errorf("problems %q", r.Problems)
	}
}
