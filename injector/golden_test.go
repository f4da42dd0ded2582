package injector

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/injector/merge"
	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/templates"
)

const statusKey = "pillion.dev/status"

// goldenCase is one folder of testdata; its README says what the files mean.
type goldenCase struct {
	dir       string
	namespace templates.Namespace
	set       *templates.Set
}

func TestGoldenPods(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/pod.yaml")
	if err != nil || len(dirs) < 12 {
		t.Fatalf("%d golden cases (%v)", len(dirs), err)
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			c := openCase(t, dir)
			c.checkFiles(t)
			injected := c.check(t, "pod.yaml", "want.yaml")
			c.again(t, injected)
			c.undo(t, injected, c.read(t, "pod.yaml"))
			if _, err := os.Stat(filepath.Join(dir, "between.yaml")); err == nil {
				c.between(t, injected)
			}
		})
	}
}

func openCase(t *testing.T, dir string) *goldenCase {
	c := &goldenCase{dir: dir}
	c.namespace = NamespaceOf(c.read(t, "namespace.yaml"))
	files, err := filepath.Glob(filepath.Join(dir, "template*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []templates.Entry
	for _, file := range files {
		manifest, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		template, _, err := templates.Compile(manifest, templates.Options{Source: file})
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, templates.Entry{Name: template.Name(), Template: template})
	}
	c.set = templates.NewSet(entries)
	return c
}

// checkFiles fails on a file that no part of the test reads.
func (c *goldenCase) checkFiles(t *testing.T) {
	known := []string{"pod.yaml", "namespace.yaml", "want.yaml", "between.yaml", "want-between.yaml"}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name := d.Name(); !slices.Contains(known, name) && !(strings.HasPrefix(name, "template") && strings.HasSuffix(name, ".yaml")) {
			t.Errorf("%s: no test reads this file", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *goldenCase) read(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	converted, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	object, err := DecodePod(converted)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return object
}

// inject runs the pipeline and proves with the API server's own library that the
// patch gives the intended pod, and that the input is untouched.
func (c *goldenCase) inject(t *testing.T, pod map[string]any) Outcome {
	t.Helper()
	before := encode(t, pod)
	out, err := NewPipeline(Config{}).Inject(Request{Operation: "CREATE", Pod: pod, Namespace: c.namespace, Templates: c.set})
	if err != nil {
		t.Fatal(err)
	}
	if !out.Allowed {
		t.Fatalf("refused: %s", out.Message)
	}
	if after := encode(t, pod); after != before {
		t.Fatalf("the input was changed to\n%s", after)
	}
	if len(out.Operations) == 0 {
		if encode(t, out.Pod) != before {
			t.Fatal("no patch, but another pod")
		}
		return out
	}
	operations, err := patch.Marshal(out.Operations)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatalf("the API server's library cannot read the patch: %v\n%s", err, operations)
	}
	applied, err := decoded.Apply([]byte(before))
	if err != nil {
		t.Fatalf("the API server's library cannot apply the patch: %v\n%s", err, operations)
	}
	got, err := DecodePod(applied)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, out.Pod) {
		t.Fatalf("the patch gives\n%s\nintended is\n%s", encode(t, got), encode(t, out.Pod))
	}
	return out
}

func (c *goldenCase) check(t *testing.T, pod, want string) map[string]any {
	t.Helper()
	out := c.inject(t, c.read(t, pod))
	if diff := cmp.Diff(c.read(t, want), withoutStatus(t, out.Pod)); diff != "" {
		t.Errorf("%s: the pod differs from %s (-want +got)\n%s\nwarnings: %q", pod, want, diff, out.Warnings)
	}
	return out.Pod
}

func (c *goldenCase) again(t *testing.T, injected map[string]any) {
	t.Helper()
	if out := c.inject(t, injected); len(out.Operations) > 0 {
		t.Errorf("a second injection changes the pod to\n%s", encode(t, out.Pod))
	}
}

// undo checks that the base pod of the injected pod is the pod that came.
func (c *goldenCase) undo(t *testing.T, injected, original map[string]any) {
	t.Helper()
	status, err := merge.ParseStatus(injected, statusKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(original, merge.Base(injected, status)); diff != "" {
		t.Errorf("the base pod is not the pod that came (-came +base)\n%s", diff)
	}
}

// between gives the first injection's status to the pod that somebody changed in
// between, and injects that.
func (c *goldenCase) between(t *testing.T, injected map[string]any) {
	t.Helper()
	pod := c.read(t, "between.yaml")
	status, ok := injected["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey]
	if !ok {
		t.Fatal("the injected pod carries no status")
	}
	meta := pod["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		meta["annotations"] = annotations
	}
	annotations[statusKey] = status
	out := c.inject(t, pod)
	if diff := cmp.Diff(c.read(t, "want-between.yaml"), withoutStatus(t, out.Pod)); diff != "" {
		t.Errorf("after a change in between (-want +got)\n%s\nwarnings: %q", diff, out.Warnings)
	}
	c.again(t, out.Pod)
}

func withoutStatus(t *testing.T, pod map[string]any) map[string]any {
	t.Helper()
	pod, err := DecodePod([]byte(encode(t, pod)))
	if err != nil {
		t.Fatal(err)
	}
	meta, _ := pod["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if _, ok := annotations[statusKey]; !ok {
		return pod
	}
	delete(annotations, statusKey)
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
	return pod
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(errors.Join(errors.New("encoding"), err))
	}
	return string(b)
}
