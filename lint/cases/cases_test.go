package cases_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/lint/cases"
	"github.com/pillion-dev/pillion/templates"
)

const sidecar = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: side}
spec:
  matchConditions:
  - {name: not-host-network, expression: "!pod.spec.?hostNetwork.orValue(false)", message: the node's network is not for it}
  parameters:
  - {name: level, type: string, enum: [info, debug], default: info}
  inject:
    spec:
      initContainers:
      - {name: side, restartPolicy: Always, image: "registry.example.com/side:${has(values.tag) ? values.tag : '1'}", env: [{name: LEVEL, value: "${params.level}"}]}
`

const pod = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: web, image: nginx}]}
`

const want = `# What a person wrote, in their own form.
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: web, image: nginx}]
  initContainers:
  - {name: side, image: "registry.example.com/side:1", restartPolicy: Always, env: [{name: LEVEL, value: info}]}
`

// lay writes files into a new folder and returns the folder's path.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		errtest.ExpectNone(t, os.MkdirAll(filepath.Dir(path), 0o755))
		errtest.ExpectNone(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// run runs the cases of the templates in dir.
func run(t *testing.T, dir string, update bool) []cases.Result {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	errtest.ExpectNone(t, err)
	var list []cases.Template
	for _, file := range files {
		data, err := os.ReadFile(file)
		errtest.ExpectNone(t, err)
		for _, d := range templates.ParseFile(data) {
			list = append(list, cases.Template{File: file, Document: d})
		}
	}
	results, err := cases.Run(t.Context(), list, cases.Options{Whole: []string{dir}, Update: update})
	errtest.ExpectNone(t, err)
	return results
}

// one returns the only result.
func one(t *testing.T, results []cases.Result) cases.Result {
	t.Helper()
	if len(results) != 1 {
		t.Fatalf("%d results, want one: %+v", len(results), results)
	}
	return results[0]
}

// contents returns the text of every file below dir, by path.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			got[name], err = os.Readlink(path)
			return err
		}
		text, err := os.ReadFile(path)
		got[name] = string(text)
		return err
	})
	errtest.ExpectNone(t, err)
	return got
}

func TestACaseFailsWhereItGivesSomethingElse(t *testing.T) {
	loud := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: side, side.pillion.dev/level: loud}}\n"
	hostNetwork := strings.Replace(pod, "spec: {", "spec: {hostNetwork: true, ", 1)
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []string // one part of each problem
	}{
		{"the wanted pod in another form", map[string]string{"pod.yaml": pod, "want.yaml": want}, nil},
		{"another value", map[string]string{"pod.yaml": pod, "want.yaml": strings.Replace(want, "value: info", "value: debug", 1)}, []string{"\n-      value: debug\n+      value: info\n"}},
		{"a refusal with its reason", map[string]string{"pod.yaml": pod, "namespace.yaml": loud, "want-error.txt": "BadParameter\n\nmust be one of info, debug\n"}, nil},
		{"a refusal with another reason", map[string]string{"pod.yaml": pod, "namespace.yaml": loud, "want-error.txt": "Conflict\n"}, []string{"refused with BadParameter, and the first line of want-error.txt expects Conflict"}},
		{"a refusal with another message", map[string]string{"pod.yaml": pod, "namespace.yaml": loud, "want-error.txt": "BadParameter\nquiet\n"}, []string{"- quiet\n+ annotation side.pillion.dev/level"}},
		{"a refusal that nobody wants", map[string]string{"pod.yaml": pod, "namespace.yaml": loud, "want.yaml": want}, []string{"is refused, and want.yaml expects it to be injected: BadParameter"}},
		{"an admission that nobody wants", map[string]string{"pod.yaml": pod, "want-error.txt": "BadParameter\n"}, []string{"is admitted, and want-error.txt expects it to be refused"}},
		{"an empty want-error.txt", map[string]string{"pod.yaml": pod, "namespace.yaml": loud, "want-error.txt": ""}, []string{"expects nothing"}},
		{"nothing wanted", map[string]string{"pod.yaml": pod}, []string{"neither want.yaml nor want-error.txt"}},
		{"both wanted", map[string]string{"pod.yaml": pod, "want.yaml": want, "want-error.txt": "x"}, []string{"both there"}},
		{"a warning", map[string]string{"pod.yaml": hostNetwork, "want.yaml": hostNetwork, "want-warnings.txt": "ConditionFalse: without side\n"}, nil},
		{"a warning that nobody wants", map[string]string{"pod.yaml": hostNetwork, "want.yaml": hostNetwork}, []string{"+ ConditionFalse: without side"}},
		{"a warning that does not come", map[string]string{"pod.yaml": pod, "want.yaml": want, "want-warnings.txt": "careful\n"}, []string{"- careful"}},
		{"the installer's values", map[string]string{"pod.yaml": pod, "want.yaml": strings.Replace(want, "side:1", "side:2", 1), "values.yaml": "tag: '2'\n"}, nil},
		{"values that break the template", map[string]string{"pod.yaml": pod, "want.yaml": want, "values.yaml": "tag: {}\n"}, []string{"with the values of values.yaml the template does not compile"}},
		{"no pod", map[string]string{"want.yaml": want}, []string{"pod.yaml is missing"}},
		{"a workload", map[string]string{"pod.yaml": "kind: Deployment\n", "want.yaml": want}, []string{`must have an object of kind Pod; got "Deployment"`}},
		{"no YAML", map[string]string{"pod.yaml": "a: b: c\n", "want.yaml": want}, []string{"pod.yaml cannot be read"}},
		{"an annotation that is no text", map[string]string{"pod.yaml": strings.Replace(pod, "labels:", "annotations: {a: false}, labels:", 1), "want.yaml": want}, []string{`pod.yaml: metadata.annotations.a: false: json: cannot unmarshal bool`}},
		{"a container that is no object", map[string]string{"pod.yaml": strings.Replace(pod, "[{name: web", "[web, {name: web", 1), "want.yaml": want}, []string{`pod.yaml: spec.containers[0]: "web": json: cannot unmarshal string`}},
		{"a mistyped file", map[string]string{"pod.yaml": pod, "want.yaml": want, "wants.yaml": ""}, []string{"wants.yaml is not a file of a case"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{"side.yaml": sidecar}
			for name, text := range test.files {
				files["testdata/side/case/"+name] = text
			}
			dir := lay(t, files)
			r := one(t, run(t, dir, false))
			if len(r.Problems) != len(test.want) || r.Template != "side" || r.Case != filepath.Join(dir, "testdata", "side", "case") {
				t.Fatalf("%+v; want the problems %q", r, test.want)
			}
			for i, part := range test.want {
				if !strings.Contains(r.Problems[i], part) {
					t.Errorf("problem %q; want one with %q", r.Problems[i], part)
				}
			}
		})
	}
}

func TestAFolderOfCasesWithoutATemplateIsReported(t *testing.T) {
	broken := strings.NewReplacer("name: side", "name: broken", "params.level", "params.none").Replace(sidecar)
	dir := lay(t, map[string]string{
		"side.yaml": sidecar, "broken.yaml": broken,
		"testdata/broken/case/pod.yaml": pod, "testdata/sied/case/pod.yaml": pod,
		"testdata/rapid/TestX/x.fail": "", "testdata/golden/want.yaml": "",
	})
	r := one(t, run(t, dir, false))
	if filepath.Base(r.Case) != "sied" || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "is named sied") {
		t.Errorf("result %+v", r)
	}
	data, err := os.ReadFile(filepath.Join(dir, "side.yaml"))
	errtest.ExpectNone(t, err)
	results, err := cases.Run(t.Context(), []cases.Template{{File: filepath.Join(dir, "side.yaml"), Document: templates.ParseFile(data)[0]}}, cases.Options{})
	if err != nil || len(results) != 0 {
		t.Errorf("for a single file: %+v, %v; want nothing", results, err)
	}
}

func TestACasePassesAfterAnUpdate(t *testing.T) {
	files := map[string]string{
		"side.yaml":                   sidecar,
		"testdata/side/good/pod.yaml": pod, "testdata/side/good/want.yaml": want,
		"testdata/side/new/pod.yaml":           pod,
		"testdata/side/other/pod.yaml":         pod,
		"testdata/side/other/want.yaml":        strings.Replace(want, "value: info", "value: debug", 1),
		"testdata/side/refused/namespace.yaml": "kind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: side}}\n",
		"testdata/side/refused/pod.yaml":       strings.Replace(pod, "labels:", "annotations: {side.pillion.dev/level: loud}, labels:", 1),
		"testdata/side/refused/want.yaml":      want,
		"testdata/side/unread/pod.yaml":        strings.Replace(pod, "labels:", "annotations: {pillion.dev/inject: 'a,,b'}, labels:", 1),
		"testdata/side/warned/pod.yaml":        strings.Replace(pod, "spec: {", "spec: {hostNetwork: true, ", 1),
		"testdata/side/fine/pod.yaml":          pod,
		"testdata/side/fine/want.yaml":         want,
		"testdata/side/fine/want-warnings.txt": "gone\n",
	}
	dir := lay(t, files)
	updated := map[string][]string{}
	for _, r := range run(t, dir, true) {
		if len(r.Problems) > 0 {
			t.Errorf("%s: problems %q", r.Case, r.Problems)
		}
		if len(r.Updated) > 0 {
			slices.Sort(r.Updated)
			updated[filepath.Base(r.Case)] = r.Updated
		}
	}
	wantUpdated := map[string][]string{
		"new": {"want.yaml"}, "other": {"want.yaml"}, "refused": {"want-error.txt", "want.yaml"},
		"unread": {"want-error.txt"},
		"warned": {"want-warnings.txt", "want.yaml"}, "fine": {"want-warnings.txt"},
	}
	if diff := cmp.Diff(wantUpdated, updated); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	after := contents(t, dir)
	if got := after[filepath.FromSlash("testdata/side/good/want.yaml")]; got != want {
		t.Errorf("a want.yaml that was right is rewritten:\n%s", got)
	}
	if got := after[filepath.FromSlash("testdata/side/refused/want-error.txt")]; !strings.HasPrefix(got, "BadParameter\nannotation side.pillion.dev/level") || strings.Contains(got, "pillion explain") {
		t.Errorf("want-error.txt:\n%s", got)
	}
	for _, r := range run(t, dir, false) {
		if len(r.Problems) > 0 {
			t.Errorf("after the update %s: problems %q", r.Case, r.Problems)
		}
	}
	for name, text := range files {
		if !strings.HasPrefix(filepath.Base(name), "want") && after[filepath.FromSlash(name)] != text {
			t.Errorf("the update changed %s", name)
		}
	}
}

func TestUpdateWritesNothingOutsideTheCases(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "want.yaml")
	errtest.ExpectNone(t, os.WriteFile(victim, []byte("mine\n"), 0o600))
	dir := lay(t, map[string]string{"side.yaml": sidecar, "testdata/side/file/pod.yaml": pod, "outside/pod.yaml": pod})
	for link, target := range map[string]string{
		"testdata/side/file/want.yaml": victim,
		"testdata/side/folder":         outside,
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip("no symbolic links here")
		}
	}
	results := run(t, dir, true)
	if len(results) != 2 {
		t.Fatalf("results %+v", results)
	}
	for _, r := range results {
		if len(r.Problems) == 0 || len(r.Updated) > 0 {
			t.Errorf("%s: problems %q, updated %q; want it refused", r.Case, r.Problems, r.Updated)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "mine\n" {
		t.Errorf("the file outside holds %q, %v", text, err)
	}
	if got := contents(t, outside); len(got) != 1 {
		t.Errorf("outside there is now %v", slices.Sorted(maps.Keys(got)))
	}
}

// The cases of a canary are about the pods that it selects: parameters are read under the stable name.
func TestTheCasesOfACanaryGetItUnderTheStableName(t *testing.T) {
	canary := strings.NewReplacer("{name: side}", "{name: side-next}", "spec:\n  matchConditions", "spec:\n  canary: {of: side, percent: 1}\n  matchConditions",
		"registry.example.com/side:", "registry.example.com/side:next-").Replace(sidecar)
	results := run(t, lay(t, map[string]string{
		"side.yaml": sidecar, "next.yaml": canary,
		"testdata/side/plain/pod.yaml": pod, "testdata/side/plain/want.yaml": want,
		"testdata/side-next/debug/pod.yaml": strings.Replace(pod, "name: web, labels", "name: web, annotations: {side.pillion.dev/level: debug}, labels", 1),
		"testdata/side-next/debug/want.yaml": strings.NewReplacer("name: web, labels", "name: web, annotations: {side.pillion.dev/level: debug}, labels", "side:1", "side:next-1", "value: info", "value: debug").
			Replace(want),
	}), false)
	injected := 0
	for _, r := range results {
		if len(r.Problems) > 0 {
			t.Errorf("%s: %q", r.Case, r.Problems)
		}
		if r.Injected {
			injected++
		}
	}
	if len(results) != 2 || injected != 2 {
		t.Errorf("%d cases, %d injected", len(results), injected)
	}
}
