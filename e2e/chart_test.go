package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	networkingv1 "k8s.io/api/networking/v1"
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

func (r rendered) has(kind string) bool {
	return slices.ContainsFunc(r, func(o unstructured.Unstructured) bool { return o.GetKind() == kind })
}

// Each of these is refused with a message that names it.
func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	hardenedNeeds := []string{"rbac.hardened=true", "certs.provider=files", "certs.files.secretName", "certs.provider=cert-manager", "certs.certManager.publish=false"}
	for _, c := range []struct {
		sets, says []string
	}{
		// What the schema finds comes at once.
		{[]string{"replicas=-1", "certs.files.secretName=Bad_Name", "networkPolicy.apiServers[0].ipblock.cidr=10.0.0.0/28"},
			[]string{"replicas", "Bad_Name", "ipblock"}},
		{[]string{"libary={fluent-bit}", "webhook.nam=x", "replicas=many", "certs.provider=none", "log.level=loud", "webhook.timeoutSeconds=31", "rbac.hardend=true", "rbac.hardened=1",
			"webhook.clientCA=file.crt", "networkPolicy.enabled=yes"},
			[]string{"libary", "nam", "replicas", "provider", "level", "timeoutSeconds", "hardend", "hardened", "clientCA", "enabled"}},
		{[]string{`podLabels.app\.kubernetes\.io/name=x`, `podLabels.app\.kubernetes\.io/instance=x`, `metrics.labels.helm\.sh/chart=x`,
			`commonLabels.app\.kubernetes\.io/version=x`, `commonLabels.rbac\.authorization\.k8s\.io/aggregate-to-admin=yes`, `commonLabels.pod-security\.kubernetes\.io/enforce=baseline`,
			"global.imageRegistry=http:r/a", "image.repository=a@sha256:abc"},
			[]string{"/podLabels/app.kubernetes.io~1name", "/podLabels/app.kubernetes.io~1instance", "/metrics/labels/helm.sh~1chart", "/commonLabels/app.kubernetes.io~1version", "aggregate-to-admin", "enforce",
				"http:r/a", "a@sha256:abc"}},
		{[]string{`commonLabels.pillion\.dev/injection=disabled`}, []string{"commonLabels: pillion.dev/injection", "take this one out"}},
		{[]string{"library={fluent-bit}", "templates.fluent-bit.inject.a=b"}, []string{"templates.fluent-bit: library names a template of this name"}},
		{[]string{"templates.pillion-proof.inject.a=b"}, []string{"templates.pillion-proof: the name belongs to a template of Pillion's own"}},
		{[]string{"templates.own.inject.a=b", "templates.own.suspend=true"}, []string{"templates.own.spec.suspend: the chart never renders it", "kubectl patch sidecartemplate own"}},
		{[]string{"parameterDefaults.fluent-bit.logLevel=debug"}, []string{"parameterDefaults.fluent-bit: neither library nor templates has a template of this name; they have none"}},
		{[]string{"library={fluent-bit}", "parameterDefaults.fluent-bit.logLevle=debug"}, []string{"parameterDefaults.fluent-bit.logLevle: the template has no such parameter; it has cpu, "}},
		{[]string{"webhook.clientNames={a}"}, []string{"webhook.clientCA"}},
		{[]string{"certs.provider=files"}, []string{"certs.files.secretName is required"}},
		{[]string{"certs.leafDuration=9000h"}, []string{"certs.leafDuration is 9000h: allowed is from 3s to less than certs.caDuration, which is 8760h"}},
		{[]string{"certs.leafDuration=8760h"}, []string{"less than certs.caDuration"}},
		{[]string{"certs.leafDuration=2.9s"}, []string{"allowed is from 3s"}},
		{[]string{"certs.caDuration=0s"}, []string{"certs.caDuration, which is 0s"}},
		{[]string{"certs.settle=3000h"}, []string{"certs.settle is 3000h: allowed is at most a quarter of certs.caDuration, which is 8760h"}},
		{[]string{"certs.caDuration=12s", "certs.leafDuration=3s", "certs.settle=3.1s"}, []string{"certs.settle is 3.1s"}},
		{[]string{"certs.provider=cert-manager", "certs.leafDuration=59m"}, []string{"cert-manager issues certificates of at least 1h"}},
		{append(slices.Clone(hardened["files"]), "rbac.admissionPolicy=false"), []string{"rbac.admissionPolicy=true", "with which a stolen token can"}},
		{[]string{"rbac.hardened=true"}, hardenedNeeds},
		{[]string{"rbac.hardened=true", "rbac.createSecrets=false"}, hardenedNeeds},
		{[]string{"rbac.hardened=true", "certs.provider=cert-manager", "certs.certManager.publish=true"}, hardenedNeeds},
	} {
		refuses(t, c.sets, c.says)
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

func TestTheRegistrationFailsOpenAndOnlyEnforcedNamespacesClosed(t *testing.T) {
	t.Parallel()
	c := only[admissionregistrationv1.MutatingWebhookConfiguration](t, render(t), "MutatingWebhookConfiguration")
	if c.Name != configuration || len(c.Webhooks) != 4 || c.Webhooks[0].Name != "namespaces.pillion.dev" {
		t.Fatalf("%s has %d entries", c.Name, len(c.Webhooks))
	}
	for i, want := range []struct {
		name     string
		operator metav1.LabelSelectorOperator
		values   []string
		policy   admissionregistrationv1.FailurePolicyType
	}{
		{"requested", metav1.LabelSelectorOpIn, []string{"enabled"}, admissionregistrationv1.Ignore},
		{"pods", metav1.LabelSelectorOpNotIn, []string{"enabled", "enforced", "disabled"}, admissionregistrationv1.Ignore},
		{"enforced", metav1.LabelSelectorOpIn, []string{"enforced"}, admissionregistrationv1.Fail},
	} {
		w := c.Webhooks[i+1]
		if w.Name != want.name+".pillion.dev" || *w.ClientConfig.Service.Path != "/mutate/"+want.name || *w.FailurePolicy != want.policy || *w.TimeoutSeconds != 10 || len(w.MatchConditions) > 0 != (want.name == "pods") ||
			*w.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun || *w.ReinvocationPolicy != admissionregistrationv1.IfNeededReinvocationPolicy ||
			*w.MatchPolicy != admissionregistrationv1.Equivalent || w.ClientConfig.CABundle != nil {
			t.Errorf("entry %d is\n%s", i, pretty(w))
		}
		byLabel := metav1.LabelSelectorRequirement{Key: injectionLabel, Operator: want.operator, Values: want.values}
		if !requires(w.NamespaceSelector, byLabel) || !excludesItself(w.NamespaceSelector) {
			t.Errorf("entry %s selects namespaces by\n%s", w.Name, pretty(w.NamespaceSelector))
		}
	}
	all := only[admissionregistrationv1.MutatingWebhookConfiguration](t, render(t, "webhook.scope=All"), "MutatingWebhookConfiguration")
	byLabel := metav1.LabelSelectorRequirement{Key: injectionLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"enforced", "disabled"}}
	if len(all.Webhooks) != 3 || all.Webhooks[1].Name != "requested.pillion.dev" || !requires(all.Webhooks[1].NamespaceSelector, byLabel) || all.Webhooks[2].Name != "enforced.pillion.dev" {
		t.Errorf("with webhook.scope=All the entries are\n%s", pretty(all.Webhooks))
	}
}

// requires reports whether the selector has the requirement.
func requires(selector *metav1.LabelSelector, requirement metav1.LabelSelectorRequirement) bool {
	return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return pretty(r) == pretty(requirement) })
}

// excludesItself reports whether the selector leaves out the namespaces that Pillion keeps
// out of.
func excludesItself(selector *metav1.LabelSelector) bool {
	return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn &&
			slices.Contains(r.Values, "kube-system") && slices.Contains(r.Values, "kube-node-lease") && slices.Contains(r.Values, ground.Namespace)
	})
}

// passesOverItself reports whether the first condition of an entry leaves out, by their names,
// the namespaces that Pillion keeps out of.
func passesOverItself(w admissionregistrationv1.MutatingWebhook) bool {
	if len(w.MatchConditions) == 0 {
		return false
	}
	e := w.MatchConditions[0].Expression
	return strings.Contains(e, "object.metadata.") && strings.Contains(e, "'kube-system'") && strings.Contains(e, "'kube-node-lease'") && strings.Contains(e, "'"+ground.Namespace+"'")
}

// The verifying webhook is called where there is something to verify, and no write of a
// namespace ever fails for the label that says where.
func TestTheVerifyingEntriesSelectNamespacesByTheLabelThatPillionKeeps(t *testing.T) {
	t.Parallel()
	objects := render(t)
	seen := 0
	for _, w := range only[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration").Webhooks {
		if !strings.HasPrefix(w.Name, "required") {
			continue
		}
		seen++
		byLabel := metav1.LabelSelectorRequirement{Key: requiredLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"true"}}
		if !requires(w.NamespaceSelector, byLabel) || !excludesItself(w.NamespaceSelector) {
			t.Errorf("entry %s selects namespaces by\n%s", w.Name, pretty(w.NamespaceSelector))
		}
	}
	if seen != 2 {
		t.Errorf("%d entries verify, want 2", seen)
	}
	w := only[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration").Webhooks[0]
	if w.Name != "namespaces.pillion.dev" || *w.FailurePolicy != admissionregistrationv1.Ignore || *w.SideEffects != admissionregistrationv1.SideEffectClassNone ||
		*w.ReinvocationPolicy != admissionregistrationv1.IfNeededReinvocationPolicy || *w.MatchPolicy != admissionregistrationv1.Equivalent ||
		*w.TimeoutSeconds != 10 || *w.ClientConfig.Service.Path != "/mutate/namespaces" || w.ClientConfig.CABundle != nil ||
		// A label of the name is not there yet where the API server makes the name.
		pretty(w.NamespaceSelector) != pretty(metav1.LabelSelector{}) || !passesOverItself(w) {
		t.Errorf("the entry for namespaces is\n%s", pretty(w))
	}
}

func TestValuesReachTheObjects(t *testing.T) {
	t.Parallel()
	objects := render(t, "library={fluent-bit,environment}", "replicas=3", "templates.own.inject.spec.hostNetwork=true",
		"webhook.name=second", "parameterDefaults.fluent-bit.output.host=logs", "parameterDefaults.fluent-bit.logLevel=debug", "global.imageRegistry=registry.example.com")
	deployment := only[appsv1.Deployment](t, objects, "Deployment")
	if *deployment.Spec.Replicas != 3 {
		t.Errorf("%d replicas, want 3", *deployment.Spec.Replicas)
	}
	if objects.has("CustomResourceDefinition") {
		t.Error("the CRDs are rendered, which are in crds/")
	}
	if c := only[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration"); c.Name != "second" {
		t.Errorf("the registration is\n%s", pretty(c))
	}
	defaults := map[string]map[string]any{}
	for _, object := range objects {
		if object.GetKind() != "SidecarTemplate" {
			continue
		}
		name := object.GetName()
		defaults[name] = map[string]any{}
		parameters, _, _ := unstructured.NestedSlice(object.Object, "spec", "parameters")
		for _, p := range parameters {
			parameter := p.(map[string]any)
			defaults[name][parameter["name"].(string)] = parameter["default"]
		}
		if object.GetLabels()["pillion.dev/version"] == "" {
			t.Errorf("the template %s does not say for which version of Pillion it is", name)
		}
	}
	if got := slices.Sorted(maps.Keys(defaults)); !slices.Equal(got, []string{"environment", "fluent-bit", "own"}) {
		t.Errorf("the templates are %v", got)
	}
	// A map keeps the keys that the values do not name.
	if of := defaults["fluent-bit"]; of["logLevel"] != "debug" || fmt.Sprint(of["output"]) != "map[host:logs name:stdout]" || of["image"] != "registry.example.com/fluent/fluent-bit:4.1.1" {
		t.Errorf("the defaults of fluent-bit are %v", of)
	}
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

// A registry for all charts takes the place of the one in the image's repository, also where a
// parent chart gives it.
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
	parent := t.TempDir()
	for path, text := range map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: parent\nversion: 0.1.0\n",
		"values.yaml": "global: {imageRegistry: registry.example.com, imagePullSecrets: [x]}\npillion: {library: [fluent-bit]}\n",
	} {
		expectNoError(t, os.WriteFile(filepath.Join(parent, path), []byte(text), 0o600))
	}
	expectNoError(t, os.CopyFS(filepath.Join(parent, "charts", "pillion"), os.DirFS(checkout.Chart())))
	if out, want := must(t, "", "helm", "template", "parent", parent, "-n", ground.Namespace), "image: registry.example.com/pillion-dev/pillion:"+version+"\n"; !strings.Contains(out, want) {
		t.Errorf("below a parent chart the image is not %s", want)
	}
}

// settings are those that the server runs by, as text.
func (r rendered) settings(t *testing.T) string {
	t.Helper()
	for _, object := range r {
		if object.GetKind() == "ConfigMap" && object.GetLabels()["app.kubernetes.io/component"] == "settings" {
			return only[corev1.ConfigMap](t, rendered{object}, "ConfigMap").Data["settings.yaml"]
		}
	}
	t.Fatal("the chart renders no settings")
	return ""
}

// server is the container of Pillion's pods.
func server(t *testing.T, sets ...string) corev1.Container {
	t.Helper()
	return only[appsv1.Deployment](t, render(t, sets...), "Deployment").Spec.Template.Spec.Containers[0]
}

func TestTheAdminPortIsThatOfTheValues(t *testing.T) {
	t.Parallel()
	objects := render(t, "adminPort=9100")
	container := only[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0]
	if !strings.Contains(objects.settings(t), `adminListen: ":9100"`) || !slices.Contains(container.Ports, corev1.ContainerPort{Name: "admin", ContainerPort: 9100}) {
		t.Errorf("the settings are\n%s\nthe ports %v", objects.settings(t), container.Ports)
	}
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Port.String() != "admin" {
			t.Errorf("a probe asks on %s", probe.HTTPGet.Port.String())
		}
	}
	if text := pretty(objects); strings.Contains(text, "8080") {
		t.Errorf("the port 8080 is still in\n%s", text)
	}
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

// about are the rules on certificates of the chart's roles, one "resource/name: verbs" each.
func about(t *testing.T, objects rendered) []string {
	t.Helper()
	var found []string
	for _, rules := range roles(t, objects) {
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				if resource == "secrets" || strings.HasSuffix(resource, "webhookconfigurations") {
					found = append(found, fmt.Sprintf("%s%v: %s", resource, rule.ResourceNames, strings.Join(rule.Verbs, " ")))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestEachCertificateProviderGetsTheRightsThatItNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{nil, []string{
			"mutatingwebhookconfigurations[pillion]: list watch patch", "secrets[]: create", "secrets[pillion-ca]: get list watch update",
			"validatingwebhookconfigurations[pillion]: list watch patch",
		}},
		{[]string{"certs.provider=cert-manager"}, []string{
			"mutatingwebhookconfigurations[pillion]: list watch", "secrets[pillion-serving]: list watch",
			"validatingwebhookconfigurations[pillion]: list watch",
		}},
		{[]string{"certs.provider=cert-manager", "certs.certManager.publish=true"}, []string{
			"mutatingwebhookconfigurations[pillion]: list watch patch", "secrets[pillion-serving]: get list watch update",
			"validatingwebhookconfigurations[pillion]: list watch patch",
		}},
		{[]string{"certs.provider=files", "certs.files.secretName=mine"}, []string{
			"mutatingwebhookconfigurations[pillion]: list watch", "validatingwebhookconfigurations[pillion]: list watch",
		}},
	} {
		if got := about(t, render(t, c.sets...)); !slices.Equal(got, c.want) {
			t.Errorf("with %q the rules are\n%s\nwant\n%s", c.sets, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestValuesReachPillionAsSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sets, want []string }{
		{[]string{"webhook.name=second", "templateValues.cluster=blue", "global.imagePullSecrets={a}"}, []string{`webhookConfiguration: "second"`, `values: "{\"cluster\":\"blue\",\"global\":{\"imagePullSecrets\":[\"a\"]}}"`}},
		{[]string{"webhook.clientCA=-----BEGIN CERTIFICATE-----", "webhook.clientNames={a,b}", "rbac.createSecrets=false"},
			[]string{`clientCA: "-----BEGIN CERTIFICATE-----"`, `clientNames: ["a","b"]`, "ownerEvents: true", "createSecret: false"}},
		{[]string{"certs.caDuration=1h", "certs.leafDuration=10m", "certs.settle=30s"},
			[]string{"provider: self-signed", "caDuration: 1h", "leafDuration: 10m", "settle: 30s", "secret: pillion-ca"}},
		{[]string{"certs.provider=cert-manager"}, []string{"secret: pillion-serving", "publish: false"}},
		{[]string{"certs.provider=files", "certs.files.secretName=own"}, []string{"folder: /etc/pillion/certificate"}},
		{[]string{"resources.limits.memory=1Gi"}, []string{`memoryLimit: "1Gi"`}},
	} {
		text := render(t, c.sets...).settings(t)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("with %q the settings lack %s:\n%s", c.sets, want, text)
			}
		}
	}
}

func TestCertManagersObjectsAreAsTheValuesSay(t *testing.T) {
	t.Parallel()
	annotated := func(sets ...string) string {
		c := only[admissionregistrationv1.MutatingWebhookConfiguration](t, render(t, sets...), "MutatingWebhookConfiguration")
		return c.Annotations["cert-manager.io/inject-ca-from"]
	}
	if got := annotated("certs.provider=cert-manager"); got != ground.Namespace+"/pillion" {
		t.Errorf("cainjector takes the CA from %q", got)
	}
	if got := annotated() + annotated("certs.provider=cert-manager", "certs.certManager.publish=true"); got != "" {
		t.Errorf("cainjector is asked for by %q where nobody wants it", got)
	}
	constrained := 0
	for _, object := range render(t, "certs.provider=cert-manager") {
		names, _, err := unstructured.NestedStringSlice(object.Object, "spec", "nameConstraints", "permitted", "dnsDomains")
		expectNoError(t, err)
		if slices.Contains(names, "pillion."+ground.Namespace+".svc") {
			constrained++
		}
	}
	if constrained != 1 {
		t.Errorf("the chart constrains %d CAs, want one", constrained)
	}
	own := render(t, "certs.provider=cert-manager", "certs.certManager.issuerRef.name=corporate", "certs.certManager.issuerRef.kind=ClusterIssuer")
	if own.has("Issuer") {
		t.Error("with an issuer of one's own the chart makes others")
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

// harms are the verbs of a rule that a hardened installation must not have, with the reason.
func harms(rule rbacv1.PolicyRule, clusterWide bool) []string {
	var harms []string
	say := func(wrong bool, text string) {
		if wrong {
			harms = append(harms, text)
		}
	}
	any := func(list []string, wanted ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(wanted, s) })
	}
	writes := any(rule.Verbs, "create", "update", "patch", "delete", "deletecollection", "*")
	say(any(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*"), "a wildcard")
	say(any(rule.APIGroups, registrationGroup) && writes, "a webhook configuration can be written")
	say(any(rule.APIGroups, registrationGroup) && len(rule.ResourceNames) == 0, "every webhook configuration can be read")
	say(any(rule.Resources, "secrets") && writes, "a Secret can be written")
	say(any(rule.Resources, "secrets") && clusterWide, "Secrets of the whole cluster")
	say(any(rule.Resources, "secrets") && len(rule.ResourceNames) == 0, "Secrets of any name")
	say(any(rule.APIGroups, "rbac.authorization.k8s.io", "certificates.k8s.io"), "roles or certificates")
	say(any(rule.Verbs, "escalate", "bind", "impersonate", "approve", "sign"), "a verb that gives rights")
	say(any(rule.Resources, "serviceaccounts/token", "pods/exec", "pods/ephemeralcontainers", "nodes/proxy"), "a way into another account")
	say(any(rule.Resources, "pods") && clusterWide, "pods of the whole cluster")
	say(any(rule.APIGroups, "", "apps", "batch") && clusterWide && !slices.Equal(rule.Resources, []string{"namespaces"}), "objects of tenants")
	say(any(rule.Resources, "pods") && writes, "a pod can be written")
	say(any(rule.APIGroups, "") && any(rule.Resources, "events"), "core events")
	say(any(rule.Resources, "namespaces") && writes, "a namespace can be written")
	return harms
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

func TestTheHardenedChartGrantsNothingThatAStolenTokenCouldHarmBy(t *testing.T) {
	t.Parallel()
	for provider, sets := range hardened {
		for _, more := range [][]string{nil, {"rbac.everyoneReadsTemplates=false"}} {
			objects := render(t, append(slices.Clone(sets), more...)...)
			seen := 0
			for role, rules := range roles(t, objects) {
				for _, rule := range rules {
					seen++
					// A policy holds the right to patch namespaces to one label.
					ofLabel := slices.Equal(rule.Resources, []string{"namespaces"}) && slices.Equal(rule.Verbs, []string{"patch"}) && holdsNamespaces(t, objects)
					// Another one holds the right to create pods to dry runs.
					_, dryRuns := policies(t, objects)["proof"]
					ofProof := role == "Role pillion-proof" && slices.Equal(rule.Resources, []string{"pods"}) && slices.Equal(rule.Verbs, []string{"create"}) && dryRuns
					for _, harm := range harms(rule, strings.HasPrefix(role, "ClusterRole ")) {
						if !ofLabel && !ofProof {
							t.Errorf("%s with %q: %s: %s: %+v", provider, more, role, harm, rule)
						}
					}
					if len(rule.NonResourceURLs) > 0 {
						t.Errorf("%s with %q: %s: %+v", provider, more, role, rule)
					}
				}
			}
			if seen < 4 {
				t.Errorf("%s with %q: %d rules were looked at", provider, more, seen)
			}
			for policy := range policies(t, objects) {
				if !slices.Contains([]string{"namespaces", "labels", "proof", "selectors", "hints"}, policy) {
					t.Errorf("%s with %q: a policy that nothing needs: %s", provider, more, policy)
				}
			}
			if objects.has("Secret") {
				t.Errorf("%s with %q: a Secret that nothing needs", provider, more)
			}
		}
	}
	// What is looked for is found in the default installation.
	found := ""
	for role, rules := range roles(t, render(t)) {
		for _, rule := range rules {
			found += strings.Join(harms(rule, strings.HasPrefix(role, "ClusterRole ")), ", ") + "\n"
		}
	}
	for harm, want := range map[string]bool{"a webhook configuration can be written": true, "a Secret can be written": true, "Secrets of any name": true, "objects of tenants": true, "a wildcard": false} {
		if strings.Contains(found, harm) != want {
			t.Errorf("in the default installation this is found: %s: %t, want %t", harm, !want, want)
		}
	}
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

// holdsNamespaces reports whether a policy holds Pillion's account to its label on namespaces.
// TestAStolenTokenCanChangeNothingOfANamespaceButPillionsLabel tries the policy.
func holdsNamespaces(t *testing.T, objects rendered) bool {
	t.Helper()
	_, ok := policies(t, objects)["namespaces"]
	return ok
}

func TestAnotherCAOfClientsReplacesThePods(t *testing.T) {
	t.Parallel()
	checksum := func(ca string) string {
		return only[appsv1.Deployment](t, render(t, "webhook.clientCA="+ca), "Deployment").Spec.Template.Annotations["checksum/settings"]
	}
	if one := checksum("-----BEGIN CERTIFICATE-----a"); one == "" || one == checksum("-----BEGIN CERTIFICATE-----b") {
		t.Error("another CA does not replace the pods")
	}
}

func TestTheNetworkPolicyLetsInWhomTheValuesName(t *testing.T) {
	t.Parallel()
	if render(t).has("NetworkPolicy") {
		t.Error("there is a NetworkPolicy by default")
	}
	const servers, monitoring = "networkPolicy.apiServers[0].ipBlock.cidr=10.0.0.0/28", "networkPolicy.metrics[0].namespaceSelector.matchLabels.team=monitoring"
	for _, c := range []struct {
		sets []string
		want string // for each rule the port, and how many peers; 0 is everybody
	}{
		{nil, "webhook:0"},
		{[]string{servers}, "webhook:1 admin:1"},
		{[]string{monitoring}, "webhook:0 admin:1"},
		{[]string{servers, monitoring}, "webhook:1 admin:2"},
		{[]string{"networkPolicy.apiServers=null", "networkPolicy.metrics=null"}, "webhook:0"},
	} {
		policy := only[networkingv1.NetworkPolicy](t, render(t, append([]string{"networkPolicy.enabled=true"}, c.sets...)...), "NetworkPolicy")
		var got []string
		for _, rule := range policy.Spec.Ingress {
			got = append(got, fmt.Sprintf("%s:%d", rule.Ports[0].Port, len(rule.From)))
		}
		if text := strings.Join(got, " "); text != c.want || !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
			t.Errorf("with %q the rules are %s, want %s", c.sets, text, c.want)
		}
	}
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
