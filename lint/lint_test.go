package lint_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/lint"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
	"github.com/pillion-dev/pillion/templates/samples"
)

var update = flag.Bool("update", false, "write the golden files anew")

// folder returns the documents of a folder of testdata.
func folder(t *testing.T, name string) []lint.Document {
	t.Helper()
	files, err := filepath.Glob("testdata/" + name + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s: %v", len(files), name, err)
	}
	var documents []lint.Document
	for _, file := range files {
		data, err := os.ReadFile(file)
		errtest.ExpectNone(t, err)
		for _, d := range templates.ParseFile(data) {
			documents = append(documents, lint.Document{Source: filepath.Base(file), Document: d})
		}
	}
	return documents
}

func TestEachKindOfMistakeIsFoundAndNothingElse(t *testing.T) {
	var text strings.Builder
	seen := map[string]bool{}
	now := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	for _, r := range lint.Run(folder(t, "mistakes"), lint.Options{Now: now}) {
		for _, f := range r.Findings {
			text.WriteString(f.String() + "\n")
			seen[f.Rule] = true
			if f.Severity != lint.Note && !strings.HasPrefix(r.Source, f.Rule) {
				t.Errorf("%s is there to show another rule: %s", r.Source, f)
			}
			if f.Severity == lint.Error && f.Rule == "compile" && f.Line == 0 {
				t.Errorf("no line: %s", f)
			}
		}
	}
	const golden = "testdata/mistakes.txt"
	if *update {
		errtest.ExpectNone(t, os.WriteFile(golden, []byte(text.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	errtest.ExpectNone(t, err)
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("findings (-want +got), -update writes them:\n%s", diff)
	}
	for _, rule := range lint.Rules {
		if !seen[rule.Name] && !slices.Contains([]string{"server", "quality-of-service", "values"}, rule.Name) { // other tests show them
			t.Errorf("no file shows the rule %s", rule.Name)
		}
	}
	for rule := range seen {
		if !slices.ContainsFunc(lint.Rules, func(r lint.Rule) bool { return r.Name == rule }) {
			t.Errorf("the rule %s is not among the rules", rule)
		}
	}
}

// The templates of a namespace may be twenty, and each 64 KiB. Those of another namespace do not count.
func TestTheTemplatesOfANamespaceFindRoom(t *testing.T) {
	document := func(namespace string, i, length int) lint.Document {
		manifest := fmt.Sprintf("apiVersion: pillion.dev/v1alpha1\nkind: NamespacedSidecarTemplate\nmetadata: {name: %s-%d, namespace: %s}\nspec:\n  match: {}\n  inject: {metadata: {annotations: {a: %s}}}\n", namespace, i, namespace, strings.Repeat("x", length))
		return lint.Document{Source: fmt.Sprint(namespace, ".yaml"), Document: templates.Document{Manifest: []byte(manifest), Line: 1}}
	}
	var documents []lint.Document
	for i := range 22 {
		documents = append(documents, document("many", i, 1))
	}
	documents = append(documents, document("large", 0, 70_000), document("other", 0, 60_000))
	found := map[string]string{}
	for _, r := range lint.Run(documents, lint.Options{}) {
		for _, f := range r.Findings {
			if f.Rule == "namespace-room" {
				found[f.Template] += f.Message
			}
		}
	}
	for name, want := range map[string]string{"many-20": "20 templates", "many-21": "20 templates", "large-0": "and may have 65536"} {
		if !strings.Contains(found[name], want) {
			t.Errorf("%s: %q, want %s", name, found[name], want)
		}
	}
	if len(found) != 3 {
		t.Errorf("found %v", found)
	}
}

func TestTheLibraryHasNothingThatLintMinds(t *testing.T) {
	var documents []lint.Document
	for _, name := range charts.Names() {
		data, err := charts.Template(name)
		errtest.ExpectNone(t, err)
		documents = append(documents, lint.Document{Source: "library/" + name, Document: templates.Document{Manifest: data, Line: 1}})
	}
	for _, r := range lint.Run(documents, lint.Options{}) {
		for _, f := range r.Findings {
			// Some templates need privileges for their purpose, and no pod gets all of them.
			if f.Severity != lint.Note && f.Rule != "same-place" && f.Rule != "pod-security" {
				t.Error(f)
			}
		}
	}
}

const forShop = `
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: proxy}
spec:
  parameters:
  - {name: port, type: integer, minimum: 1024, default: 8080}
  inject:
    metadata: {labels: {port: "${params.port}"}}
    spec:
      volumes: [{name: data, emptyDir: {}}]
`

func TestTheAuthorsOwnPodsMustWorkAsTheyAre(t *testing.T) {
	documents := []lint.Document{{Source: "proxy.yaml", Document: templates.Document{Manifest: []byte(forShop), Line: 1}}}
	sample := func(pod string) samples.Sample {
		raw, err := podschema.DecodeObject([]byte(pod))
		errtest.ExpectNone(t, err)
		return samples.Sample{Name: "web", Pod: raw, Namespace: templates.Namespace{Name: "shop"}}
	}
	for _, c := range []struct{ why, pod, says string }{
		{"a pod as any other", `{"metadata":{},"spec":{"containers":[{"name":"web","image":"w:1"}]}}`, ""},
		{"a parameter that breaks its bound", `{"metadata":{"annotations":{"proxy.pillion.dev/port":"80"}},"spec":{"containers":[{"name":"web","image":"w:1"}]}}`, `error: proxy.yaml: template proxy: for the pod web: annotation proxy.pillion.dev/port on the pod: must be a whole number`},
		{"a parameter that does not exist", `{"metadata":{"annotations":{"proxy.pillion.dev/prot":"8080"}},"spec":{"containers":[{"name":"web","image":"w:1"}]}}`, `error: proxy.yaml: template proxy: for the pod web: annotation proxy.pillion.dev/prot on the pod: the template proxy has no such parameter; did you mean port?`},
		{"a volume of the name", `{"metadata":{},"spec":{"containers":[{"name":"web","image":"w:1"}],"volumes":[{"name":"data","hostPath":{"path":"/"}}]}}`, "error: proxy.yaml: template proxy: for the pod web: would be refused:"},
	} {
		var text strings.Builder
		for _, f := range lint.Run(documents, lint.Options{Samples: []samples.Sample{sample(c.pod)}})[0].Findings {
			if f.Severity != lint.Note {
				text.WriteString(f.String() + "\n")
			}
		}
		if c.says == "" && text.Len() > 0 || !strings.Contains(text.String(), c.says) {
			t.Errorf("%s: %q; want %q", c.why, text.String(), c.says)
		}
	}
}

// The kubelet judges the pod as a whole: what the author's own pod is, the template may change.
func TestWhatTheKubeletMakesOfThePodsOfAnAuthorIsFound(t *testing.T) {
	documents := []lint.Document{}
	for _, d := range templates.ParseFile([]byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: t}\nspec: {inject: {spec: {initContainers: [{name: s, image: 's:1', restartPolicy: Always, securityContext: {runAsNonRoot: true}, resources: {requests: {cpu: 1m, memory: 1Mi}, limits: {memory: 1Mi}}}]}}}\n")) {
		documents = append(documents, lint.Document{Source: "t.yaml", Document: d})
	}
	for pod, want := range map[string]string{
		`{"spec":{"securityContext":{"runAsUser":0},"containers":[{"name":"web","image":"w:1"}]}}`:                 "error: t.yaml:4: template t: spec.inject.spec.initContainers[0].securityContext: for the pod own: the container s never starts: runAsUser is 0 (of the pod) and runAsNonRoot is true (of the container); set one of them on the container [never-starts]",
		`{"spec":{"containers":[{"name":"web","image":"w:1","resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}}`: "warning: t.yaml:4: template t: spec.inject.spec.initContainers[0].resources: for the pod own: the pod is Guaranteed, and the container s makes it Burstable: give it limits for CPU and memory, and requests that are the same or absent [quality-of-service]",
		`{"spec":{"containers":[{"name":"web","image":"w:1"}]}}`:                                                   "",
	} {
		raw, err := podschema.DecodeObject([]byte(pod))
		errtest.ExpectNone(t, err)
		var found []string
		for _, f := range lint.Run(documents, lint.Options{Samples: []samples.Sample{{Name: "own", Pod: raw}}})[0].Findings {
			if f.Severity != lint.Note {
				found = append(found, f.String())
			}
		}
		if got := strings.Join(found, "\n"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", pod, got, want)
		}
	}
}
