package charts_test

import (
	"encoding/json"

	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/lint/cases"
	"github.com/pillion-dev/pillion/templates"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/fragment/fragmenttest"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// compile compiles a template of the library, with other defaults of parameters, as the chart writes them.
func compile(t *testing.T, name string, defaults, values map[string]any) *templates.Template {
	t.Helper()
	manifest, err := charts.Template(name)
	errtest.ExpectNone(t, err)
	if len(defaults) > 0 {
		var object map[string]any
		errtest.ExpectNone(t, yaml.Unmarshal(manifest, &object))
		parameters, _, _ := unstructured.NestedSlice(object, "spec", "parameters")
		for _, p := range parameters {
			if value, ok := defaults[p.(map[string]any)["name"].(string)]; ok {
				p.(map[string]any)["default"] = value
			}
		}
		errtest.ExpectNone(t, unstructured.SetNestedSlice(object, parameters, "spec", "parameters"))
		if manifest, err = yaml.Marshal(object); err != nil {
			t.Fatal(err)
		}
	}
	tmpl, warnings, err := templates.Compile(manifest, templates.Options{Source: "library/" + name, Values: values})
	if err != nil {
		t.Fatalf("compiling: %v", err)
	}
	for _, w := range warnings {
		t.Errorf("warning: %s", w)
	}
	return tmpl
}

const (
	minimalPod = `{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}`
	fullPod    = `{"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {
		"initContainers": [{"name": "migrate", "image": "m"}, {"name": "cache", "image": "c", "restartPolicy": "Always"}],
		"containers": [
			{"name": "web", "image": "w", "ports": [{"name": "http", "containerPort": 3000}, {"containerPort": 9090}], "env": [{"name": "A", "value": "b"}], "livenessProbe": {"httpGet": {"port": "http"}}},
			{"name": "worker", "image": "w", "readinessProbe": {"httpGet": {"path": "/x", "port": 8081}}}],
		"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
		"volumes": [{"name": "data", "emptyDir": {}}]}}`
)

// validated are the parameters that validations ask for, where a pod has no annotation of
// another injector that means the same.
var validated = map[string][]string{"vault-agent": {"role", "secrets"}}

// needed are the annotations without which a template refuses a pod, from the
// examples of its parameters.
func needed(t *testing.T, tmpl *templates.Template) map[string]string {
	t.Helper()
	annotations := map[string]string{}
	for _, p := range tmpl.Parameters() {
		if !p.Required && !slices.Contains(validated[tmpl.Name()], p.Name) || p.Default != nil {
			continue
		}
		if p.Type == v1alpha1.Map {
			var entries map[string]string
			if err := json.Unmarshal(p.Example, &entries); err != nil {
				t.Fatalf("the example of %s: %v", p.Name, err)
			}
			for key, value := range entries {
				annotations[strings.TrimSuffix(p.Annotation, "KEY")+key] = value
			}
			continue
		}
		var text string
		if err := json.Unmarshal(p.Example, &text); err != nil {
			t.Fatalf("the example of %s: %v", p.Name, err)
		}
		annotations[p.Annotation] = text
	}
	return annotations
}

// added returns the containers that a template adds to the minimal pod when only
// what it needs is set.
func added(t *testing.T, tmpl *templates.Template) []map[string]any {
	t.Helper()
	r, err := tmpl.Render(t.Context(), templates.Input{Pod: fragmenttest.Decode(t, minimalPod), Namespace: templates.Namespace{Name: "shop", Annotations: needed(t, tmpl)}})
	errtest.ExpectNone(t, err)
	var containers []map[string]any
	for _, list := range []string{"initContainers", "containers"} {
		for _, it := range r.Fragment.Field("spec", list).List() {
			if it.IsSidecar() {
				containers = append(containers, it.JSON().(map[string]any))
			}
		}
	}
	return containers
}

func TestEveryTemplateAndParameterIsDescribedAndBounded(t *testing.T) {
	for _, name := range charts.Names() {
		tmpl := compile(t, name, nil, nil)
		if d := tmpl.Spec().Description; d == "" || !strings.HasSuffix(d, ".") {
			t.Errorf("%s: the description %q is no sentence", name, d)
		}
		for _, p := range tmpl.Parameters() {
			if p.Description == "" {
				t.Errorf("%s: the parameter %s has no description", name, p.Name)
			}
			if p.Default == nil && p.Example == nil {
				t.Errorf("%s: the parameter %s has neither a default nor an example", name, p.Name)
			}
			kind, c := p.Type, p.Constraints
			if p.Items != nil {
				kind, c = p.Items.Type, p.Items.Constraints
			}
			switch {
			case kind == v1alpha1.JSON:
				t.Errorf("%s: the parameter %s takes any structure", name, p.Name)
			case kind == v1alpha1.String && c.Enum == nil && c.MaxLength == nil:
				t.Errorf("%s: the parameter %s takes text of any length", name, p.Name)
			case kind == v1alpha1.Integer && (c.Minimum == nil || c.Maximum == nil):
				t.Errorf("%s: the parameter %s takes any number", name, p.Name)
			}
		}
	}
}

// TestTheTemplatesCasesPass is what `pillion lint --test` does to them.
func TestTheTemplatesCasesPass(t *testing.T) {
	list := make([]cases.Template, 0, len(charts.Names()))
	for _, name := range charts.Names() {
		manifest, err := charts.Template(name)
		errtest.ExpectNone(t, err)
		list = append(list, cases.Template{File: name + ".yaml", Document: templates.ParseFile(manifest)[0]})
	}
	results, err := cases.Run(t.Context(), list, cases.Options{Whole: []string{"."}})
	errtest.ExpectNone(t, err)
	count := map[string]int{}
	for _, r := range results {
		count[r.Template]++
		for _, problem := range r.Problems {
			t.Errorf("%s: %s", r.Case, problem)
		}
	}
	for _, name := range charts.Names() {
		if count[name] < 2 {
			t.Errorf("%s has %d cases", name, count[name])
		}
	}
}

func TestSidecarsAreNativeBoundedProbedAndUnprivileged(t *testing.T) {
	// What has no port to ask: a shell that waits, an agent that only calls out, and what copies.
	withoutProbe := []string{"debug-toolbox", "vault-agent", "opentelemetry-java"}
	for _, name := range charts.Names() {
		defaults := map[string]any{}
		if name == "istio-proxy" { // where Istio's CNI plugin redirects
			defaults["init"] = false
		}
		for _, c := range added(t, compile(t, name, defaults, nil)) {
			isInit := c["name"] == "vault-agent-init" || c["name"] == "opentelemetry-java" // it copies, and ends
			if c["restartPolicy"] != "Always" && !isInit {
				t.Errorf("%s: the restartPolicy of %s is %v; a Job with it would never finish", name, c["name"], c["restartPolicy"])
			}
			security, _ := c["securityContext"].(map[string]any)
			user := security["runAsUser"]
			want := map[string]any{
				"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
				"readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": user, "runAsGroup": security["runAsGroup"],
				"seccompProfile": map[string]any{"type": "RuntimeDefault"},
			}
			if security["privileged"] == false {
				want["privileged"] = false
			}
			if diff := cmp.Diff(want, security); diff != "" || user == nil || user == json.Number("0") || user == int64(0) {
				t.Errorf("%s: securityContext of %s (-want +got):\n%s", name, c["name"], diff)
			}
			resources, _ := c["resources"].(map[string]any)
			requests, _ := resources["requests"].(map[string]any)
			limits, _ := resources["limits"].(map[string]any)
			if requests["cpu"] == nil || requests["memory"] == nil || limits["memory"] == nil || limits["cpu"] != nil {
				t.Errorf("%s: resources of %s: %v; want requests, and a limit of memory alone", name, c["name"], resources)
			}
			if c["livenessProbe"] == nil && c["readinessProbe"] == nil && !slices.Contains(withoutProbe, name) {
				t.Errorf("%s: %s has no probe", name, c["name"])
			}
		}
	}
}

// Who may pull the images is said in each pod that has one.
func TestThePullSecretsOfAllChartsReachThePods(t *testing.T) {
	for _, name := range charts.Names() {
		own := added(t, compile(t, name, nil, nil))
		tmpl := compile(t, name, nil, map[string]any{"global": map[string]any{"imagePullSecrets": []any{"mirror", "other"}}})
		r, err := tmpl.Render(t.Context(), templates.Input{Pod: fragmenttest.Decode(t, minimalPod), Namespace: templates.Namespace{Name: "shop", Annotations: needed(t, tmpl)}})
		errtest.ExpectNone(t, err)
		var want any
		if len(own) > 0 {
			want = []any{map[string]any{"name": "mirror"}, map[string]any{"name": "other"}}
		}
		if diff := cmp.Diff(want, r.Fragment.Field("spec", "imagePullSecrets").JSON()); diff != "" {
			t.Errorf("%s: the Secrets to pull with (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryImageCanBeTheInstallersAndNoPods(t *testing.T) {
	const mirrored = "mirror.example.com:5000/mirrored/image:1"
	for _, name := range charts.Names() {
		tmpl := compile(t, name, nil, nil)
		containers := added(t, tmpl)
		at := slices.IndexFunc(tmpl.Parameters(), func(p templates.Parameter) bool { return p.Name == "image" })
		if (at >= 0) != (len(containers) > 0) {
			t.Errorf("%s adds %d containers, and has a parameter image: %t", name, len(containers), at >= 0)
		}
		if at < 0 {
			continue
		}
		p := tmpl.Parameters()[at]
		if p.Type != v1alpha1.Image || p.Default == nil || slices.Contains(p.SetBy, v1alpha1.Pod) {
			t.Errorf("%s: the parameter image: type %s, default %s, set by %v; want an image with a default, not set by pods", name, p.Type, p.Default, p.SetBy)
		}
		if tag := string(p.Default); !strings.Contains(tag, ":") || strings.Contains(tag, ":latest") {
			t.Errorf("%s: the image %s has no version", name, tag)
		}
		for _, c := range added(t, compile(t, name, map[string]any{"image": mirrored}, nil)) {
			if c["image"] != mirrored {
				t.Errorf("%s: the image of %s is %v, whatever the installer says", name, c["name"], c["image"])
			}
		}
	}
}
