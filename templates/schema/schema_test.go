package schema_test

import (
	"bytes"
	_ "embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(committed))
	errtest.ExpectNone(t, err)
	c := jsonschema.NewCompiler()
	errtest.ExpectNone(t, c.AddResource("sidecartemplate.json", document))
	s, err := c.Compile("sidecartemplate.json")
	errtest.ExpectNone(t, err)
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, manifest []byte) error {
	t.Helper()
	text, err := yaml.YAMLToJSON(manifest)
	errtest.ExpectNone(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	errtest.ExpectNone(t, err)
	return s.Validate(document)
}

// Every template of the examples, of the library and of the docs' walks is valid.
func TestTemplatesThatCompileAreValid(t *testing.T) {
	s, seen := compiled(t), 0
	for _, root := range []string{"../../examples", "../../charts/pillion/library", "../../cmd/pillion/testdata", "../../lint/testdata"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, d := range templates.ParseFile(text) {
				if !bytes.Contains(d.Manifest, []byte("kind: SidecarTemplate\n")) {
					continue
				}
				if _, _, err := templates.Compile(d.Manifest, templates.Options{}); err != nil {
					continue
				}
				if seen++; validate(t, s, d.Manifest) != nil {
					t.Errorf("%s:%d: %v", path, d.Line, validate(t, s, d.Manifest))
				}
			}
			return nil
		})
		errtest.ExpectNone(t, err)
	}
	if seen < 45 {
		t.Errorf("only %d templates were looked at", seen)
	}
}

// whole has every directive, and expressions in the place of values of each type.
//
//go:embed testdata/whole.yaml
var whole string

// What a manifest may write in place of leaving a field out, and directives in rarer places.
func TestRareFormsThatCompileAreValid(t *testing.T) {
	s := compiled(t)
	for _, c := range []struct{ old, now string }{
		{"    metadata:\n", "    $if: \"params.open\"\n    $onConflict: KeepPod\n    metadata:\n"},
		{"    metadata:\n", "    metadata:\n      $if: true\n      $onConflict: Overwrite\n"},
		{`labels: {"${params.open}.example.com/x": "y", $if: "params.open"}`, "$unset: [labels]"},
		{"$if: container.name != 'x'", "$if: true"},
		{"  matchConditions", strings.Join([]string{"  onConflict: ''", "onError: ''", "podResources: ''", "containerSecurity: ''", "matchConditions"}, "\n  ")},
		{"  matchConditions", strings.Join([]string{"  onConflict:", "os:", "order:", "suspend:", "files:", "verify:", "description:", "availableTo:", "variables:", "matchConditions"}, " null\n  ")},
		{"  matchConditions", "  files: {a: null}\n  matchConditions"},
		{"{podSelector: {matchExpressions: [{key: app, operator: Exists}]}}", "null"},
		{"{matchExpressions: [{key: app, operator: Exists}]}", "null"},
		{"{matchExpressions: [{key: app, operator: Exists}]}", "{matchLabels: null, matchExpressions: null}"},
		{"{matchExpressions: [{key: app, operator: Exists}]}", "{matchLabels: {a: null}, matchExpressions: [{key: app, operator: Exists, values: null}]}"},
		{`type: integer, default: 80, minimum: "1"`, "type: integer, items: null, description: null, enum: null, pattern: null, setBy: null, default: 80, minimum: null, maxLength: null"},
	} {
		rare := strings.Replace(whole, c.old, c.now, 1)
		if _, _, err := templates.Compile([]byte(rare), templates.Options{}); err != nil || rare == whole {
			t.Errorf("%s: it is no case: %v", c.now, err)
		}
		if err := validate(t, s, []byte(rare)); err != nil {
			t.Errorf("%s: %v", c.now, err)
		}
	}
}

func TestMistakesAreInvalid(t *testing.T) {
	s := compiled(t)
	if _, _, err := templates.Compile([]byte(whole), templates.Options{}); err != nil {
		t.Fatal(err)
	}
	errtest.ExpectNone(t, validate(t, s, []byte(whole)))
	for name, c := range map[string]struct{ old, now string }{
		"no name":                                {"metadata: {name: whole}", "metadata: {}"},
		"another kind":                           {"kind: SidecarTemplate", "kind: Sidecar"},
		"an unknown field of the spec":           {"  matchConditions", "  matchCondition"},
		"an unknown type":                        {"type: integer", "type: int"},
		"a part that no template sets":           {"    metadata:\n", "    status: {}\n    metadata:\n"},
		"an unknown field of the pod":            {"hostNetwork", "hostNetworks"},
		"an unknown field of a container":        {"image: a:1", "images: a:1"},
		"a number for text":                      {`{name: A, value: "1"}`, "{name: A, value: 1}"},
		"text with an expression for a boolean":  {`hostNetwork: "${params.open}"`, `hostNetwork: "${params.open} "`},
		"a container without a name":             {"      - name: side\n        $position", "      - $position"},
		"an unknown directive":                   {"$prepend", "$prefix"},
		"$each elsewhere":                        {"$for: \"x in params.extra\"", "$each: App"},
		"$each with an image":                    {"$each: App", "$each: App\n        image: a:1"},
		"a place that is none":                   {"{before: other}", "{in: other}"},
		"a field that $unset cannot find":        {"$unset: [runAsUser]", "$unset: [runAsUsers]"},
		"a scalar's directive without its value": {`{$onConflict: KeepPod, value: "${params.port}"}`, "{$onConflict: KeepPod}"},
	} {
		broken := strings.Replace(whole, c.old, c.now, 1)
		if broken == whole {
			t.Errorf("%s: the template has no %q", name, c.old)
		}
		if _, _, err := templates.Compile([]byte(broken), templates.Options{}); err == nil {
			t.Errorf("%s: it compiles", name)
		}
		if validate(t, s, []byte(broken)) == nil {
			t.Errorf("%s: it is valid", name)
		}
	}
}
