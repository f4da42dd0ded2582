package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
)

const shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {pillion.dev/inject: fluent-bit}}\n"

const web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web%s}\nspec: {containers: [{name: web, image: nginx}]}\n"

// call runs a command line on files in a folder of its own, which it stands in
// for as DIR, and returns exit code, standard output and standard error.
func call(t *testing.T, stdin string, files map[string]string, args ...string) (int, string, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	line := []string{"pillion"}
	for _, a := range args {
		line = append(line, strings.ReplaceAll(a, "DIR", dir))
	}
	if line[1] == "inject" || line[1] == "explain" {
		line = append(line, named(stdin+strings.Join(slices.Collect(maps.Values(files)), "\n"), args)...)
	}
	var out, errs bytes.Buffer
	code := run(context.Background(), line, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// named returns the flags that load those templates of the library only that a test's input
// names, unless the test says which. To compile all of them takes a second under the race
// detector.
func named(input string, args []string) []string {
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--library") }) {
		return nil
	}
	var flags []string
	for _, name := range charts.Names() {
		if strings.Contains(input, name) || name == "fluent-bit" {
			flags = append(flags, "--library", name)
		}
	}
	return flags
}

func pod(annotations string) string {
	if annotations != "" {
		annotations = ", annotations: {" + annotations + "}"
	}
	return strings.Replace(web, "%s", annotations, 1)
}

// The record is for Pillion: a reader of a diff asks for it.
func TestADiffHasTheRecordOnlyWhereAskedFor(t *testing.T) {
	files := map[string]string{"ns.yaml": shop}
	args := []string{"inject", "-f", "-", "-o", "diff", "--namespace-file", "DIR/ns.yaml"}
	for _, in := range []string{pod(""), pod("a: b"), "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: web}\n  spec: {template: {spec: {containers: [{name: web, image: nginx}]}}}\n"} {
		code, out, errs := call(t, in, files, args...)
		if code != exitDone || !strings.Contains(out, "name: fluent-bit") || strings.Contains(out, "pillion.dev/status") || strings.Contains(out, "annotations: {}") {
			t.Errorf("exit %d, the diff is\n%s%s", code, out, errs)
		}
		if code, out, errs := call(t, in, files, append(args, "--record")...); code != exitDone || !strings.Contains(out, "+") || !strings.Contains(out, "pillion.dev/status") {
			t.Errorf("with --record: exit %d, the diff is\n%s%s", code, out, errs)
		}
	}
}

// A misspelt annotation of the namespace is why its pods get nothing. A parameter that the pod is refused for is said once.
func TestExplainOfAFileNamesMisspeltKeysOfTheNamespace(t *testing.T) {
	for key, want := range map[string]string{
		"pillion.dev/injects: fluent-bit":                                        "warning: annotation pillion.dev/injects on the namespace is not recognised; did you mean the annotation pillion.dev/inject?",
		"pillion.dev/inject: fluent-bit, fluent-bit.pillion.dev/loglevel: debug": "",
	} {
		files := map[string]string{"ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {" + key + "}}\n"}
		_, out, errs := call(t, pod(""), files, "explain", "-f", "-", "--namespace-file", "DIR/ns.yaml", "-n", "shop")
		if said := strings.Join(strings.Fields(out), " "); !strings.Contains(said, want) || (want == "") == strings.Contains(said, "warning: ") {
			t.Errorf("%s: want %q in\n%s%s", key, want, out, errs)
		}
	}
}

func TestInjectDoesWhatTheWebhookDoes(t *testing.T) {
	files := map[string]string{"ns.yaml": shop}
	code, out, errs := call(t, "# kept\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\n"+pod(""), files, "inject", "-f", "-", "--namespace-file", "DIR/ns.yaml")
	if code != exitDone || errs != "" || !strings.Contains(out, "name: fluent-bit") || !strings.HasPrefix(out, "# kept") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	again, twice, _ := call(t, out, files, "inject", "-f", "-", "--namespace-file", "DIR/ns.yaml")
	if again != exitDone || strings.TrimSpace(twice) != strings.TrimSpace(out) {
		t.Errorf("a second injection gives\n%s\nthe first gave\n%s", twice, out)
	}
	for output, want := range map[string]string{"json": `"name": "fluent-bit"`, "patch": `[{"op":"add"`, "diff": "+    name: fluent-bit"} {
		if code, out, errs := call(t, pod(""), files, "inject", "-f", "-", "-o", output, "--namespace-file", "DIR/ns.yaml"); code != exitDone || !strings.Contains(out, want) {
			t.Errorf("-o %s: exit %d, no %q in\n%s%s", output, code, want, out, errs)
		}
	}
}

// The API server refuses such objects. An opt-out that is no text would be none.
func TestAnnotationsThatAreNoTextAreRefused(t *testing.T) {
	for _, c := range []struct{ pod, namespace, says string }{
		{pod("pillion.dev/inject: false"), shop, `Pod/web: metadata.annotations[pillion.dev/inject]: false: json: cannot unmarshal bool`},
		{pod(""), strings.Replace(shop, "fluent-bit}", "true}", 1), `Namespace/shop: metadata.annotations[pillion.dev/inject]: true: json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.annotations of type string; quote it`},
		{pod("fluent-bit.pillion.dev/port: 2022"), shop, `metadata.annotations[fluent-bit.pillion.dev/port]: 2022: json: cannot unmarshal number`},
		{pod("fluent-bit.pillion.dev/log-level: [debug]"), shop, `metadata.annotations[fluent-bit.pillion.dev/log-level]: ["debug"]: json: cannot unmarshal array`},
		{strings.Replace(pod(""), "name: web}", "name: web, annotations: [a]}", 1), shop, `metadata.annotations: ["a"]: json: cannot unmarshal array`},
		{strings.Replace(pod(""), "name: web}", "name: web, labels: {app: 1}}", 1), shop, `metadata.labels.app: 1: json: cannot unmarshal number`},
	} {
		for _, command := range []string{"inject", "explain"} {
			code, out, errs := call(t, c.pod, map[string]string{"ns.yaml": c.namespace}, command, "-f", "-", "--namespace-file", "DIR/ns.yaml", "--library=fluent-bit")
			if code != exitError || out != "" || !strings.Contains(errs, c.says) {
				t.Errorf("%s: exit %d, %q, %q; want %q", command, code, out, errs, c.says)
			}
		}
	}
	if code, _, errs := call(t, pod("a.example.com/x:"), map[string]string{"ns.yaml": shop}, "inject", "-f", "-"); code != exitDone {
		t.Errorf("null, which the API server takes for an empty text: exit %d, %s", code, errs)
	}
}

// A list item that is no object would be left as it is, without a word.
func TestAPodWhoseListsHoldSomethingElseThanObjectsIsRefused(t *testing.T) {
	broken := func(spec string) string {
		return strings.Replace(pod(""), "spec: {containers: [{name: web, image: nginx}]}", "spec: "+spec, 1)
	}
	list := "apiVersion: v1\nkind: List\nitems:\n- {kind: Service}\n- {kind: Pod, metadata: {name: web}, spec: {containers: [web]}}\n"
	for _, c := range []struct{ in, says string }{
		{broken("{containers: [{name: web, image: nginx}, web]}"), `document 2: Pod/web: spec.containers[1]: "web": json: cannot unmarshal string`},
		{broken("{containers: [{name: web, image: nginx}], initContainers: [[]]}"), `document 2: Pod/web: spec.initContainers[0]: []: json: cannot unmarshal array`},
		{broken("{containers: [{name: web, image: nginx}], volumes: data}"), `document 2: Pod/web: spec.volumes: "data": json: cannot unmarshal string`},
		{broken("{containers: {name: web}}"), `document 2: Pod/web: spec.containers: {"name":"web"}: json: cannot unmarshal object`},
		{broken("web"), `document 2: Pod/web: spec: "web": json: cannot unmarshal string`},
		{"kind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [7]}}}\n", `document 2: Deployment/web: spec.template.spec.containers[0]: 7: json: cannot unmarshal number`},
		{list, `document 2: items[1]: Pod/web: spec.containers[0]: "web": json: cannot unmarshal string`},
	} {
		files := map[string]string{"in.yaml": "kind: Service\n---\n" + c.in, "t.yaml": explainLabel}
		for _, args := range [][]string{{"inject", "-f", "DIR/in.yaml", "--library=fluent-bit"}, {"explain", "-f", "DIR/in.yaml", "--library=fluent-bit"}, {"uninject", "-f", "DIR/in.yaml"}, {"lint", "DIR/t.yaml", "--pod", "DIR/in.yaml"}} {
			code, out, errs := call(t, "", files, args...)
			if code != exitError || out != "" || !strings.Contains(errs, "in.yaml: "+c.says) {
				t.Errorf("%s: exit %d, %q, %q; want %q", args[0], code, out, errs, c.says)
			}
		}
	}
}

func TestInjectSaysWhereNothingAsks(t *testing.T) {
	quiet := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	for title, test := range map[string]struct {
		input, namespace string
		want             string
	}{
		"no namespace is known":       {pod(""), "", "note: nothing is injected: the pods do not ask for a template, and the annotations of namespace shop are not known: --namespace-file FILE or --cluster gives them. To ask for a template, set the annotation pillion.dev/inject: TEMPLATE\n"},
		"the namespace does not ask":  {pod(""), quiet, "note: nothing is injected: neither the pods nor namespace shop ask for a template, and none selects them. To ask for a template, set the annotation pillion.dev/inject: TEMPLATE\n"},
		"the namespace asks":          {pod(""), shop, ""},
		"one of two pods asks":        {pod("") + "---\n" + pod("pillion.dev/inject: fluent-bit"), quiet, ""},
		"the pod says false":          {pod("pillion.dev/inject: 'false'"), quiet, ""},
		"there is nothing with a pod": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", quiet, ""},
	} {
		args, files := []string{"inject", "-f", "-", "-n", "shop"}, map[string]string{}
		if test.namespace != "" {
			args, files["ns.yaml"] = append(args, "--namespace-file", "DIR/ns.yaml"), test.namespace
		}
		if code, _, errs := call(t, test.input, files, args...); code != exitDone || errs != test.want {
			t.Errorf("%s: exit %d, standard error %q, want %q", title, code, errs, test.want)
		}
	}
}

func TestARefusalPrintsNothingOnStandardOutput(t *testing.T) {
	two := pod("pillion.dev/inject: nope") + "---\n" + pod("") + "---\n" + pod("fluent-bit.pillion.dev/log-level: loud")
	code, out, errs := call(t, two, map[string]string{"ns.yaml": shop}, "inject", "-f", "-", "--namespace-file", "DIR/ns.yaml")
	if code != exitError || out != "" || !strings.Contains(errs, "UnknownTemplate") || !strings.Contains(errs, "BadParameter") {
		t.Errorf("exit %d, standard output %q, standard error\n%s", code, out, errs)
	}
}

// flat returns a text on one line, with one space between its words.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") + " " }

// The later one would win, and nothing would say which one counts.
func TestTwoTemplatesOfOneNameAreAnErrorThatNamesBothPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		files     map[string]string
		templates []string
		says      []string
	}{
		"in one file":            {map[string]string{"a.yaml": explainSide + "---\n" + explainLabel + "---\n" + explainLabel}, []string{"DIR/a.yaml"}, []string{"a.yaml:15: ", "the name label", "a.yaml:10"}},
		"in the items of a list": {map[string]string{"a.json": `{"kind":"List","items":[` + labelJSON + ",\n" + labelJSON + `]}`}, []string{"DIR/a.json"}, []string{"a.json:2: ", "the name label", "a.json:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range [][]string{{"inject", "-f", "-"}, {"explain", "-f", "-"}, {"params", "label"}} {
				code, out, errs := call(t, pod(""), c.files, append(command, "--library=fluent-bit", "--templates", strings.Join(c.templates, ","))...)
				if code != exitError || out != "" {
					t.Errorf("%s: exit %d, %q", command[0], code, out)
				}
				for _, want := range c.says {
					if !strings.Contains(errs, want) {
						t.Errorf("%s: no %q in %q", command[0], want, errs)
					}
				}
			}
		})
	}
	if code, out, errs := call(t, pod("pillion.dev/inject: environment"), map[string]string{"a.yaml": strings.Replace(explainLabel, "name: label", "name: environment", 1)},
		"inject", "-f", "-", "--templates", "DIR/a.yaml"); code != exitDone || !strings.Contains(out, "a: b") {
		t.Errorf("an own template of a library's name does not take its place: exit %d, %s%s", code, out, errs)
	}
}

const labelJSON = `{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"label"},"spec":{"inject":{"metadata":{"labels":{"a":"b"}}}}}`

func TestExitCodesTellWrongUsageFromBadInput(t *testing.T) {
	for _, c := range []struct {
		want  int
		stdin string
		args  []string
	}{
		{exitUsage, "", []string{"inject"}},
		{exitUsage, pod(""), []string{"inject", "-f", "-", "-o", "xml"}},
		{exitUsage, "", []string{"lint"}},
		{exitUsage, "", []string{"params"}},
		{exitUsage, "", []string{"completion", "bash", "x"}},
		{exitUsage, "", []string{"check", "shop"}},
		{exitError, "", []string{"inject", "-f", "-"}},
		{exitError, "{", []string{"inject", "-f", "-"}},
		{exitError, "", []string{"inject", "-f", "no-such-file"}},
		{exitError, pod(""), []string{"inject", "-f", "-", "--namespace-file", "no-such-file"}},
		{exitError, pod(""), []string{"inject", "-f", "-", "--library", "nope"}},
		{exitError, "kind: Service\n", []string{"explain", "-f", "-"}},
		{exitError, "", []string{"library", "show", "nope"}},
		{exitDone, "", []string{"params", "fluent-bit", "log-level", "fluent-bit.pillion.dev/memory"}},
		{exitDone, "", []string{"library", "list"}},
		{exitDone, "", []string{"library", "show", "fluent-bit"}},
		{exitDone, "kind: Service\n", []string{"inject", "-f", "-"}},
	} {
		code, out, errs := call(t, c.stdin, nil, c.args...)
		if code != c.want || (code != exitDone) == (errs == "") {
			t.Errorf("%v: exit %d, want %d\n%s\n%s", c.args, code, c.want, out, errs)
		}
	}
}

func TestTheExampleTemplatesCasesPass(t *testing.T) {
	if code, out, errs := call(t, "", nil, "lint", "--test", "../../examples/sidecartemplate.yaml"); code != exitDone || !strings.Contains(out, "cases: 2 passed, 0 failed") {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
}

const explainLabel = "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: label}\nspec: {inject: {metadata: {labels: {a: b}}}}\n"

const explainSide = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: side}
spec:
  parameters: [{name: image, type: image, default: "registry.example.com/side:1"}]
  inject: {spec: {initContainers: [{name: side, restartPolicy: Always, image: "${params.image}"}]}}
`

func injected(t *testing.T, manifests string) string {
	t.Helper()
	code, out, errs := call(t, manifests, map[string]string{"ns.yaml": shop}, "inject", "-f", "-", "--namespace-file", "DIR/ns.yaml")
	if code != exitDone || strings.Count(out, "name: fluent-bit") == 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	return out
}

func TestUninjectKeepsWhatSomebodyChangedSince(t *testing.T) {
	out := injected(t, pod(""))
	changed := strings.Replace(out, "mountPath: /var/log/app\n      name: fluent-bit-logs\n", "mountPath: /var/log/app\n      name: own\n", 1)
	if changed == out {
		t.Fatalf("there is no mount to change in\n%s", out)
	}
	code, back, errs := call(t, changed, nil, "uninject", "-f", "-")
	if code != exitDone || !strings.Contains(back, "name: own") || strings.Contains(back, "fluent-bit") {
		t.Errorf("exit %d\n%s", code, back)
	}
	if want := "warning: Pod/web: spec.containers[name=web].volumeMounts[mountPath=/var/log/app]: it was changed to"; !strings.Contains(errs, want) {
		t.Errorf("standard error is\n%swant %q", errs, want)
	}
}

func TestUninjectPassesOnWhatWasNotInjectedAndSaysSo(t *testing.T) {
	code, out, errs := call(t, pod(""), nil, "uninject", "-f", "-")
	if code != exitDone || strings.TrimSpace(out) != strings.TrimSpace(pod("")) || !strings.Contains(errs, "was not injected") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
}

func TestUninjectTakesLabelsOffAPodWithoutARecord(t *testing.T) {
	in := strings.Replace(web, "%s", `, labels: {pillion.dev/injected: "true", fluent-bit.pillion.dev/hash: "0123456789"}`, 1)
	code, out, errs := call(t, in, nil, "uninject", "-f", "-")
	var got, want any
	if err := errors.Join(yaml.Unmarshal([]byte(out), &got), yaml.Unmarshal([]byte(pod("")), &want)); err != nil {
		t.Fatal(err)
	}
	if code != exitDone || !reflect.DeepEqual(got, want) || !strings.Contains(errs, "only Pillion's labels are removed") {
		t.Fatalf("exit %d\n%s\nof\n%s\n%s", code, out, in, errs)
	}
}
