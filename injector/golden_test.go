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
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/injector/patch"
	"github.com/pillion-dev/pillion/injector/record"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
)

const statusKey = "pillion.dev/status"

// goldenCase is one folder of testdata; its README says what the files mean.
type goldenCase struct {
	dir       string
	namespace templates.Namespace
	set       *templates.Set
	entries   []templates.Entry
}

func TestGoldenPods(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/pod.yaml")
	if err != nil || len(dirs) < 60 {
		t.Fatalf("%d golden cases (%v)", len(dirs), err)
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			c := openCase(t, dir)
			c.checkFiles(t)
			if c.has("want-refused.txt") {
				c.refused(t)
				return
			}
			pod := c.read(t, "pod.yaml")
			out := c.inject(t, pod)
			c.wants(t, "want", pod, out)
			if got, want := strings.Join(out.Warnings, "\n"), c.text(t, "want-warnings.txt"); got != want {
				t.Errorf("warnings\n%s\nwant\n%s", got, want)
			}
			c.again(t, out.Pod)
			base := c.base(t, pod)
			c.undo(t, out.Pod, base)
			c.otherOrder(t, pod, out)
			c.others(t, base, out.Pod)
			if c.has("between.yaml") || c.has("between-patch.yaml") {
				c.between(t, out.Pod)
			}
		})
	}
}

func openCase(t *testing.T, dir string) *goldenCase {
	c := &goldenCase{dir: dir, namespace: templates.Namespace{Name: "shop"}}
	if c.has("namespace.yaml") {
		c.namespace = NamespaceOf(c.read(t, "namespace.yaml"))
	}
	own, err := filepath.Glob(filepath.Join(dir, "template*.yaml"))
	errtest.ExpectNone(t, err)
	files, err := filepath.Glob("testdata/templates/*.yaml")
	errtest.ExpectNone(t, err)
	if len(own) > 0 {
		files = own
	}
	var entries []templates.Entry
	for _, file := range files {
		entries = append(entries, goldenTemplate(t, file))
	}
	c.set, c.entries = templates.NewSet(entries), entries
	return c
}

// goldenTemplate compiles a template once for all cases.
func goldenTemplate(t *testing.T, file string) templates.Entry {
	t.Helper()
	if entry, ok := goldenTemplates.Load(file); ok {
		return entry.(templates.Entry)
	}
	manifest, err := os.ReadFile(file)
	errtest.ExpectNone(t, err)
	template, _, err := templates.Compile(manifest, templates.Options{Source: file})
	errtest.ExpectNone(t, err)
	entry := templates.Entry{Name: template.Name(), Template: template}
	goldenTemplates.Store(file, entry)
	return entry
}

var goldenTemplates sync.Map

func (c *goldenCase) has(name string) bool {
	_, err := os.Stat(filepath.Join(c.dir, name))
	return err == nil
}

// text reads a file of lines; one that is absent is empty.
func (c *goldenCase) text(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// patched returns the pod after the JSON patch in the file.
func (c *goldenCase) patched(t *testing.T, pod map[string]any, name string) map[string]any {
	t.Helper()
	operations, err := yaml.YAMLToJSONStrict([]byte(c.text(t, name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return patched(t, pod, string(operations))
}

// wants compares the resulting pod with the file kind.yaml, or with the pod that
// came in after the patch kind-patch.yaml.
func (c *goldenCase) wants(t *testing.T, kind string, pod map[string]any, out Outcome) {
	t.Helper()
	var want map[string]any
	switch {
	case c.has(kind + ".yaml"):
		want = c.read(t, kind+".yaml")
	case c.has(kind + "-patch.yaml"):
		want = c.patched(t, withoutStatus(t, pod), kind+"-patch.yaml")
	default:
		want = withoutStatus(t, pod)
	}
	if diff := cmp.Diff(want, withoutStatus(t, out.Pod)); diff != "" {
		t.Errorf("the pod differs from %s (-want +got)\n%s\nwarnings: %q", kind, diff, out.Warnings)
	}
}

func (c *goldenCase) refused(t *testing.T) {
	t.Helper()
	out := injectIn(t, c.namespace, c.set, c.read(t, "pod.yaml"))
	code, begins, _ := strings.Cut(c.text(t, "want-refused.txt"), "\n")
	if out.Allowed || string(out.Code) != code || !strings.HasPrefix(out.Message, begins) {
		t.Errorf("%s: %s\nwant %s: %s…", out.Code, out.Message, code, begins)
	}
	if len(out.Operations) > 0 {
		t.Error("the pod is refused, and patched")
	}
}

// otherOrder checks that the order in which templates were loaded does not
// matter.
func (c *goldenCase) otherOrder(t *testing.T, pod map[string]any, out Outcome) {
	t.Helper()
	entries := slices.Clone(c.entries)
	slices.Reverse(entries)
	other := injectIn(t, c.namespace, templates.NewSet(entries), pod)
	if a, b := patch.Marshal(out.Operations), patch.Marshal(other.Operations); string(a) != string(b) {
		t.Errorf("templates loaded in another order give\n%s\ninstead of\n%s", b, a)
	}
}

// others lets the API server and another webhook change the injected pod and the
// original alike, and injects again. The base pod has to be the changed original,
// the changes are kept, and a third call changes nothing.
func (c *goldenCase) others(t *testing.T, original, injected map[string]any) {
	t.Helper()
	rec, err := record.Parse(injected)
	errtest.ExpectNone(t, err)
	for _, add := range []bool{false, true} {
		changed, want := changedByOthers(t, injected, rec, add), changedByOthers(t, original, rec, add)
		if diff := cmp.Diff(want, rec.Base(changed)); diff != "" {
			t.Errorf("the base pod, after others, is not the pod that came, after others (-want +base)\n%s", diff)
		}
		out := injectIn(t, c.namespace, c.set, changed)
		if !out.Allowed {
			fresh := injectIn(t, c.namespace, c.set, want)
			if fresh.Allowed {
				t.Errorf("refused after others changed it, and not as a new pod (%v): %s", err, out.Message)
			}
			continue
		}
		again, err := record.Parse(out.Pod)
		errtest.ExpectNone(t, err)
		if diff := cmp.Diff(want, again.Base(out.Pod)); diff != "" {
			t.Errorf("the base pod changed with the second call (-want +base)\n%s", diff)
		}
		c.again(t, out.Pod)
	}
}

// changedByOthers returns a copy of the pod with a token mounted into every
// container, lists turned round and Pillion's images taken from a mirror. Add puts
// in one more container: in front, unless the record has items that were taken out,
// which another order would move.
func changedByOthers(t *testing.T, pod map[string]any, rec record.Record, add bool) map[string]any {
	pod, err := DecodePod([]byte(encode(t, pod)))
	errtest.ExpectNone(t, err)
	spec := pod["spec"].(map[string]any)
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		for _, item := range containers {
			c := item.(map[string]any)
			if rec.Set["spec."+list+"[name="+c["name"].(string)+"]"].Sum != "" {
				c["image"] = "mirror.example.com/" + c["image"].(string)
			}
			if mounts, _ := c["volumeMounts"].([]any); !strings.Contains(encode(t, mounts), "kubernetes.io/serviceaccount") {
				c["volumeMounts"] = append(mounts, object(tokenMount))
			}
			if env, ok := c["env"].([]any); ok && !keepsOriginals(rec) {
				slices.Reverse(env)
			}
		}
	}
	if volumes, ok := spec["volumes"].([]any); ok && !keepsOriginals(rec) {
		slices.Reverse(volumes)
	}
	if add {
		later := map[string]any{"name": "first-of-all", "image": "later:1", "volumeMounts": []any{object(tokenMount)}}
		containers, at := spec["containers"].([]any), 0
		if keepsOriginals(rec) {
			at = len(containers)
		}
		spec["containers"] = slices.Insert(containers, at, any(later))
	}
	return pod
}

// keepsOriginals reports whether the record has items that were taken out of lists.
// They come back where they were.
func keepsOriginals(rec record.Record) bool {
	for _, e := range rec.Set {
		if len(e.RemovedItems) > 0 {
			return true
		}
	}
	return false
}

// checkFiles fails on a file that the test does not read.
func (c *goldenCase) checkFiles(t *testing.T) {
	known := []string{"pod.yaml", "namespace.yaml", "want.yaml", "want-patch.yaml", "want-warnings.txt", "want-refused.txt",
		"between.yaml", "between-patch.yaml", "want-between.yaml", "want-between-patch.yaml"}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "hostile" {
			return fs.SkipDir // TestRequiredMeansRequired reads these
		}
		if err != nil || d.IsDir() {
			return err
		}
		if name := d.Name(); !slices.Contains(known, name) && !(strings.HasPrefix(name, "template") && strings.HasSuffix(name, ".yaml")) {
			t.Errorf("%s: no test reads this file", path)
		}
		return nil
	})
	errtest.ExpectNone(t, err)
}

func (c *goldenCase) read(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	errtest.ExpectNone(t, err)
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
	out := injectIn(t, c.namespace, c.set, pod)
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
	operations := patch.Marshal(out.Operations)
	decoded, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatalf("the API server's library cannot read the patch: %v\n%s", err, operations)
	}
	applied, err := decoded.Apply([]byte(before))
	if err != nil {
		t.Fatalf("the API server's library cannot apply the patch: %v\n%s", err, operations)
	}
	got, err := DecodePod(applied)
	errtest.ExpectNone(t, err)
	if !reflect.DeepEqual(got, out.Pod) {
		t.Fatalf("the patch gives\n%s\nintended is\n%s", encode(t, got), encode(t, out.Pod))
	}
	return out
}

func (c *goldenCase) again(t *testing.T, injected map[string]any) {
	t.Helper()
	if out := c.inject(t, injected); len(out.Operations) > 0 {
		t.Errorf("a second injection changes the pod to\n%s", encode(t, out.Pod))
	}
}

// base is the base pod. Most pods of the cases carry no record.
func (c *goldenCase) base(t *testing.T, pod map[string]any) map[string]any {
	t.Helper()
	rec, err := record.Parse(pod)
	if err != nil {
		t.Log(err)
	}
	return rec.Base(pod)
}

// undo checks that the base pod of the injected pod is the pod that came.
func (c *goldenCase) undo(t *testing.T, injected, original map[string]any) {
	t.Helper()
	rec, err := record.Parse(injected)
	errtest.ExpectNone(t, err)
	if diff := cmp.Diff(original, rec.Base(injected)); diff != "" {
		t.Errorf("the base pod is not the pod that came (-came +base)\n%s", diff)
	}
}

// between gives the first injection's status annotation to the pod that somebody
// changed in between, and injects that pod.
func (c *goldenCase) between(t *testing.T, injected map[string]any) {
	t.Helper()
	var pod map[string]any
	if c.has("between.yaml") {
		pod = c.read(t, "between.yaml")
		giveStatus(t, pod, injected)
	} else {
		pod = c.patched(t, injected, "between-patch.yaml")
	}
	out := c.inject(t, pod)
	c.wants(t, "want-between", pod, out)
	c.again(t, out.Pod)
}

func giveStatus(t *testing.T, pod, injected map[string]any) {
	t.Helper()
	status, ok := injected["metadata"].(map[string]any)["annotations"].(map[string]any)[statusKey]
	if !ok {
		t.Fatal("the injected pod has no status annotation")
	}
	meta := pod["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		meta["annotations"] = annotations
	}
	annotations[statusKey] = status
}

func withoutStatus(t *testing.T, pod map[string]any) map[string]any {
	t.Helper()
	pod, err := DecodePod([]byte(encode(t, pod)))
	errtest.ExpectNone(t, err)
	meta, _ := pod["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if _, ok := annotations[statusKey]; !ok {
		return pod
	}
	delete(annotations, statusKey)
	labels, _ := meta["labels"].(map[string]any)
	for key := range labels {
		if _, ours := record.OwnLabel(key); ours {
			delete(labels, key)
		}
	}
	for _, section := range []string{"annotations", "labels"} {
		if rest, ok := meta[section].(map[string]any); ok && len(rest) == 0 {
			delete(meta, section)
		}
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
