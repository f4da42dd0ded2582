package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/charts"
	"github.com/pillion-dev/pillion/e2e/ground"
)

// rendered are the objects of a chart.
type rendered []unstructured.Unstructured

// renderings are what Helm printed, by the values. A rendering is made once.
var renderings sync.Map

// render is helm template with values as --set has them.
func render(t *testing.T, sets ...string) rendered {
	t.Helper()
	out, err := rendering(sets)
	expectNoError(t, err)
	return objectsIn(t, out)
}

// objectsIn are the objects of manifests, none of which may have a key twice.
func objectsIn(t *testing.T, manifests string) rendered {
	t.Helper()
	var objects rendered
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		expectNoError(t, err)
		text, err := yaml.YAMLToJSONStrict(document)
		if err == nil && string(text) == "null" {
			continue
		}
		var object unstructured.Unstructured
		if err == nil {
			err = object.UnmarshalJSON(text)
		}
		if err != nil {
			t.Fatalf("the rendered chart: %v\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

func rendering(sets []string) (string, error) {
	made, _ := renderings.LoadOrStore(strings.Join(sets, "\x00"), sync.OnceValues(func() (string, error) {
		return ground.Run(context.Background(), shared, "helm", append([]string{"template", ground.Release, checkout.Chart(), "-n", ground.Namespace}, flags(sets)...)...)
	}))
	return made.(func() (string, error))()
}

func flags(sets []string) []string {
	var flags []string
	for _, set := range sets {
		flags = append(flags, "--set", set)
	}
	return flags
}

// only is the one object of its kind, read into a T.
func only[T any](t *testing.T, objects rendered, kind string) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		var value T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &value, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found = append(found, value)
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s, want one", len(found), kind)
	}
	return found[0]
}

// Each of these is refused with a message that names it.
func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	var cases []struct{ Sets, Says []string }
	fromYAML(t, "testdata/refused-values.yaml", &cases)
	for _, c := range cases {
		refuses(t, c.Sets, c.Says, "-n", ground.Namespace)
	}
	// A Secret in kube-system can be a bootstrap token.
	refuses(t, nil, []string{"rbac.createSecrets"}, "-n", "kube-system")
	must(t, "", "helm", "template", "x", checkout.Chart(), "-n", "kube-system", "--set", "rbac.createSecrets=false")
}

// refuses fails the test unless the chart with these values, and more arguments of Helm, is refused
// with each of the texts.
func refuses(t *testing.T, sets, says []string, more ...string) {
	t.Helper()
	_, stderr, err := run(t, "", "helm", slices.Concat([]string{"template", "x", checkout.Chart()}, flags(sets), more)...)
	for _, text := range says {
		if err == nil || !strings.Contains(stderr, text) {
			t.Errorf("%q: %v, want an error with %q", sets, err, text)
		}
	}
}

// While an upgrade runs, replicas of the version before are called by this chart's registration.
func TestTheChartNamesOnlyPathsThatTheVersionBeforeServes(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile(checkout.Path("webhook", "testdata", "paths-before.txt"))
	expectNoError(t, err)
	named := map[string]bool{}
	for _, sets := range [][]string{nil, {"webhook.scope=All"}} {
		objects := render(t, sets...)
		for _, w := range only[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration").Webhooks {
			named[*w.ClientConfig.Service.Path] = true
		}
		for _, w := range only[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration").Webhooks {
			named[*w.ClientConfig.Service.Path] = true
		}
	}
	for path := range named {
		if !bytes.Contains(list, []byte("\n"+path+"\n")) {
			t.Errorf("the chart names %s, at which replicas of the version before answer 404: serve it now, and name it in the chart of the next version", path)
		}
	}
	if len(named) < 8 {
		t.Errorf("%d paths found: %v", len(named), named)
	}
}

// An absent value is the chart's: `helm upgrade --reuse-values` brings the values of a chart that had
// fewer of them. A null takes a value away, and so stands for that here.
func TestAValueThatIsNotThereIsAsTheChartHasIt(t *testing.T) {
	t.Parallel()
	var values map[string]any
	if !readYAML(t, filepath.Join(checkout.Chart(), "values.yaml"), &values) {
		t.Fatal("the chart has no values")
	}
	whole := must(t, "", "helm", "template", "x", checkout.Chart())
	for depth := range 4 {
		text, err := json.Marshal(without(values, depth))
		expectNoError(t, err)
		if got := must(t, "", "helm", "template", "x", checkout.Chart(), "-f", inFile(t, "values.yaml", string(text))); got != whole {
			t.Errorf("with the values %s the chart renders\n%s\nand with none\n%s", text, got, whole)
		}
	}
	// What a null takes away of these is meant.
	if limited := server(t, "resources.limits.memory=null").Resources.Limits; len(limited) > 0 {
		t.Errorf("without resources.limits.memory the limits are %v", limited)
	}
}

// takenAway are maps of which a null takes an entry away.
var takenAway = []string{"resources", "labels", "podSecurityContext"}

// without returns values in which everything of a depth is null, but for what is in takenAway.
func without(values map[string]any, depth int) map[string]any {
	less := map[string]any{}
	for key, value := range values {
		below, isMap := value.(map[string]any)
		switch {
		case depth == 0:
			less[key] = nil
		case isMap && !slices.Contains(takenAway, key):
			less[key] = without(below, depth-1)
		}
	}
	return less
}

// API servers allow 64 conditions of an entry, and the chart adds up to four of its own.
func TestAsManyMatchConditionsAsTheChartTakesAreAcceptedByTheAPIServer(t *testing.T) {
	t.Parallel()
	conditions := func(n int) string {
		var text strings.Builder
		text.WriteString("webhook: {name: many, matchConditions: [")
		for i := range n {
			fmt.Fprintf(&text, "{name: condition-%d, expression: 'true'},", i)
		}
		return inFile(t, "values.yaml", text.String()+"]}\n")
	}
	out := must(t, "", "helm", "template", "many", checkout.Chart(), "-f", conditions(60),
		"--show-only", "templates/webhook.yaml", "--show-only", "templates/validatingwebhook.yaml")
	must(t, out, "kubectl", "create", "--dry-run=server", "-f", "-")
	if _, stderr, err := run(t, "", "helm", "template", "many", checkout.Chart(), "-f", conditions(61)); err == nil || !strings.Contains(stderr, "60") {
		t.Errorf("61 conditions: %v, want an error that says how many are allowed", err)
	}
}

// requires reports whether the selector has the requirement.
func requires(selector *metav1.LabelSelector, requirement metav1.LabelSelectorRequirement) bool {
	return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return pretty(r) == pretty(requirement) })
}

// Each template of the library survives the chart: its object has the file's spec.
func TestTheChartLeavesTheLibraryAsItIs(t *testing.T) {
	t.Parallel()
	for _, object := range render(t, "library={"+strings.Join(charts.Names(), ",")+"}") {
		if object.GetKind() != "SidecarTemplate" {
			continue
		}
		text, err := charts.Template(object.GetName())
		expectNoError(t, err)
		var file map[string]any
		expectNoError(t, yaml.Unmarshal(text, &file))
		if got, want := pretty(object.Object["spec"]), pretty(file["spec"]); got != want {
			t.Errorf("%s is rendered as\n%s\nand its file has\n%s", object.GetName(), got, want)
		}
	}
}

// A text of --set-file is a manifest: what Helm would pass over in silence is refused.
func TestATextThatIsNoTemplateIsRefusedByTheChart(t *testing.T) {
	t.Parallel()
	good := manifest{name: "own", spec: sidecarSpec}.yaml()
	for what, c := range map[string]struct{ text, says string }{
		"broken YAML":       {"spec: [", "templates.own: reading the text: "},
		"a text":            {"hello", "templates.own: reading the text: "},
		"two documents":     {good + "\n---\n" + good, "templates.own: the text has 2 documents, and a template is one"},
		"nothing":           {"# nothing\n---\n", "templates.own: the text has 0 documents"},
		"another name":      {manifest{name: "other", spec: sidecarSpec}.yaml(), `templates.own: its metadata.name is "other", and must be the key own`},
		"another kind":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: own}\n", "templates.own: it is a Pod of v1"},
		"of a namespace":    {strings.Replace(good, "kind: ", "kind: Namespaced", 1), "templates.own: it is a NamespacedSidecarTemplate"},
		"no spec":           {"apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: own}\n", "templates.own: it has no spec"},
		"suspend in a file": {good + "  suspend: false\n", "templates.own.spec.suspend: the chart never renders it"},
	} {
		file := inFile(t, "own.yaml", c.text)
		if _, stderr, err := run(t, "", "helm", "template", "x", checkout.Chart(), "--set-file", "templates.own="+file); err == nil || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: %v %s, want %q", what, err, stderr, c.says)
		}
	}
	for _, text := range []string{good, "---\n# a comment\n" + good + "\n---\n# nothing\n"} {
		must(t, "", "helm", "template", "x", checkout.Chart(), "--set-file", "templates.own="+inFile(t, "own.yaml", text))
	}
}

// A registry for all charts takes the place of the one in the image's repository.
func TestAGlobalRegistryTakesThePlaceOfTheImages(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	version := strings.TrimPrefix(server(t).Image, "ghcr.io/pillion-dev/pillion:")
	for _, c := range []struct {
		sets []string
		want string
	}{
		{[]string{"global.imageRegistry=registry.example.com"}, "registry.example.com/pillion-dev/pillion:" + version},
		{[]string{"global.imageRegistry=registry.example.com:5000/mirror/", "image.digest=" + digest}, "registry.example.com:5000/mirror/pillion-dev/pillion@" + digest},
		{[]string{"global.imageRegistry=r.example.com", "image.repository=localhost/a/b", "image.tag=v1"}, "r.example.com/a/b:v1"},
		{[]string{"global.imageRegistry=r.example.com", "image.repository=registry:5000/b", "image.tag=v1"}, "r.example.com/b:v1"},
		{[]string{"global.imageRegistry=r.example.com", "image.repository=library/b", "image.tag=v1"}, "r.example.com/library/b:v1"},
		{[]string{"global.imageRegistry=", "image.repository=r.example.com/b", "image.tag=v1"}, "r.example.com/b:v1"},
		{[]string{"global.other=x", "global.imageRegistry=null"}, "ghcr.io/pillion-dev/pillion:" + version},
	} {
		if got := server(t, c.sets...).Image; got != c.want {
			t.Errorf("%v: %s, want %s", c.sets, got, c.want)
		}
	}
}

// server is the container of Pillion's pods.
func server(t *testing.T, sets ...string) corev1.Container {
	t.Helper()
	return only[appsv1.Deployment](t, render(t, sets...), "Deployment").Spec.Template.Spec.Containers[0]
}

func TestPillionsOwnPodsMeetTheRestrictedPodSecurityStandard(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, nil, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	deployment := only[appsv1.Deployment](t, render(t), "Deployment")
	spec := deployment.Spec.Template.Spec
	spec.ServiceAccountName = "default"
	if _, err := n.preview(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pillion"}, Spec: spec}); err != nil {
		t.Error(err)
	}
	if _, err := n.preview(t, newPod("plain", nil)); err == nil {
		t.Error("the namespace admits a pod that does not meet the standard, so that this test shows nothing")
	}
}

// The settings that the chart renders at the limits are accepted by Pillion itself, and
// those beyond them are not: otherwise the chart would refuse what works.
func TestTheChartsLimitsOfDurationsArePillions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ca, leaf, settle string
		ok               bool
	}{
		{"12s", "3s", "3s", true},
		{"1.5h30m", "1h59m59s", "30m", true},
		{"3600s", "59m59s", "0s", true},
		{"1h", "2.9s", "5m", false},
		{"1h", "3600s", "5m", false},
		{"12s", "3s", "3001ms", false},
	} {
		about := fmt.Sprintf("{caDuration: %s, leafDuration: %s, settle: %s}", c.ca, c.leaf, c.settle)
		file := inFile(t, "settings.yaml", "server: {namespace: x}\ncertificates: "+about+"\n")
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		// It ends at the next step: there is no such kubeconfig.
		out, err := exec.CommandContext(ctx, checkout.Webhook(), "--config="+file, "--kubeconfig="+filepath.Join(t.TempDir(), "none")).CombinedOutput()
		if said := strings.Contains(string(out), "finding the API server"); err == nil || said != c.ok {
			t.Errorf("pillion-webhook with %s: %v, want its durations accepted: %t\n%s", about, err, c.ok, out)
		}
		if strings.HasSuffix(c.settle, "ms") {
			continue // the schema knows no milliseconds
		}
		_, stderr, err := run(t, "", "helm", "template", "x", checkout.Chart(), "--set", "certs.caDuration="+c.ca, "--set", "certs.leafDuration="+c.leaf, "--set", "certs.settle="+c.settle)
		if (err == nil) != c.ok {
			t.Errorf("the chart with %s: %v, want them accepted: %t", about, stderr, c.ok)
		}
	}
}

// hardened are the ways to install with rbac.hardened.
var hardened = map[string][]string{
	"files":        {"rbac.hardened=true", "certs.provider=files", "certs.files.secretName=mine"},
	"cert-manager": {"rbac.hardened=true", "certs.provider=cert-manager"},
}

// roles are the rules of all Roles and ClusterRoles, with the name of their role.
func roles(t *testing.T, objects rendered) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			all[kind+" "+object.GetName()] = only[rbacv1.ClusterRole](t, rendered{object}, kind).Rules
		}
	}
	return all
}

// policies are the ValidatingAdmissionPolicies that are bound, by what their names end in.
func policies(t *testing.T, objects rendered) map[string]admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	bound, all := map[string]bool{}, map[string]admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, object := range objects {
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			binding := only[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, rendered{object}, object.GetKind())
			bound[binding.Spec.PolicyName] = slices.Equal(binding.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny})
		}
	}
	for _, object := range objects {
		if name := object.GetName(); object.GetKind() == "ValidatingAdmissionPolicy" && bound[name] {
			all[name[strings.LastIndex(name, "-")+1:]] = only[admissionregistrationv1.ValidatingAdmissionPolicy](t, rendered{object}, object.GetKind())
		}
	}
	return all
}

// pillion lint -f renders the templates as the chart does, without Helm. Equal hashes are equal templates.
func TestLintChecksTheTemplatesThatTheChartRendersOfAFileOfValues(t *testing.T) {
	t.Parallel()
	values := inFile(t, "values.yaml", `library: [fluent-bit, vault-agent, environment]
global: {imageRegistry: registry.example.com, imagePullSecrets: [{name: pull}]}
templateValues: {cluster: east}
parameterDefaults:
  fluent-bit: {memory: 96Mi, output: {host: logs}}
  environment: {env: {A: b}}
  own: {level: debug}
templates:
  own:
    parameters: [{name: level, type: string, default: info}]
    inject: {metadata: {labels: {level: "${params.level}", cluster: "${values.cluster}"}}}
`)
	rendered := must(t, "", "helm", "template", "x", checkout.Chart(), "-f", values, "--show-only", "templates/sidecartemplates.yaml")
	installed := inFile(t, "installed.yaml", "cluster: east\nglobal: {imageRegistry: registry.example.com, imagePullSecrets: [pull]}\n")
	hashes := regexp.MustCompile(`template (\S+): ok \(hash (\w+)\)`)
	want := hashes.FindAllString(must(t, rendered, "pillion", "lint", "-", "--values", installed), -1)
	got := hashes.FindAllString(must(t, "", "pillion", "lint", "-f", values), -1)
	slices.Sort(want)
	slices.Sort(got)
	if len(want) != 4 || !slices.Equal(want, got) {
		t.Errorf("lint -f: %v\nof the chart's objects: %v", got, want)
	}
}
