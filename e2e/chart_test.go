package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// rendered are the objects of a chart.
type rendered []unstructured.Unstructured

// render is helm template with values as --set has them.
func render(t *testing.T, sets ...string) rendered {
	t.Helper()
	out := must(t, "", "helm", append([]string{"template", ground.Release, checkout.Chart(), "-n", ground.Namespace}, flags(sets)...)...)
	var objects rendered
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096); ; {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("the rendered chart: %v\n%s", err, out)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
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

func TestTheChartLints(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{
		nil,
		{"library={fluent-bit,oauth2-proxy,environment}"},
		{"annotationPrefix=side.example.com", "webhook.name=second", "crds.install=false"},
		{"required.policy=true", "templates.mesh.required=true", "templates.mesh.match.podSelector.matchLabels.app=web", "templates.mesh.inject.spec.containers[0].name=mesh", "templates.mesh.inject.spec.containers[0].image=mesh:1"},
		{"replicas=5", "podDisruptionBudget.enabled=false", "metrics.service.enabled=false", "rbac.create=false"},
		{"values.cluster=blue", "image.digest=sha256:" + strings.Repeat("0", 64)},
		{"rbac.hardened=true", "certs.provider=cert-manager", "networkPolicy.enabled=true"},
		{"rbac.createSecrets=false", "rbac.admissionPolicy=false", "webhook.clientCA=-----BEGIN CERTIFICATE-----", "webhook.clientNames={a,b}"},
	} {
		must(t, "", "helm", append([]string{"lint", "--strict", checkout.Chart()}, flags(sets)...)...)
	}
}

func TestMistypedAndWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"libary={fluent-bit}", "webhook.nam=x", "replicas=many", "replicas=-1", "certs.provider=none", "log.level=loud", "webhook.enforced.timeoutSeconds=31", "rbac.hardend=true", "required.policy=yes", "required.polcy=true", "rbac.hardened=1", "webhook.clientCA=file.crt", "networkPolicy.enabled=yes"} {
		_, stderr, err := run(t, "", "helm", "template", "x", checkout.Chart(), "--set", set)
		if err == nil {
			t.Errorf("--set %s is accepted", set)
			continue
		}
		key, _, _ := strings.Cut(set, "=")
		if last := key[strings.LastIndex(key, ".")+1:]; !strings.Contains(stderr, last) {
			t.Errorf("the error for --set %s does not name it:\n%s", set, stderr)
		}
	}
}

// While an upgrade runs, replicas of the version before are called by this chart's registration.
func TestTheChartNamesOnlyPathsThatTheVersionBeforeServes(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile(checkout.Path("injector", "webhook", "testdata", "paths-before.txt"))
	if err != nil {
		t.Fatal(err)
	}
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

func TestExtraArgumentsAreThoseThatTheChartDoesNotGive(t *testing.T) {
	t.Parallel()
	container := only[appsv1.Deployment](t, render(t, "extraArgs={--config=more.yaml,--templates=/more}"), "Deployment").Spec.Template.Spec.Containers[0]
	if n := len(container.Args); !slices.Equal(container.Args[n-2:], []string{"--config=more.yaml", "--templates=/more"}) {
		t.Errorf("the arguments are %q", container.Args)
	}
	for _, set := range []string{"extraArgs={--log-level=loud}", "extraArgs={--config=more.yaml,--log-level,debug}", "extraArgs={--library=fluent-bit}"} {
		_, stderr, err := run(t, "", "helm", "template", "x", checkout.Chart(), "--set", set, "--set", "library={environment}")
		if err == nil || !strings.Contains(stderr, "the chart gives --l") {
			t.Errorf("--set %s: %v", set, err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		if got := must(t, "", "helm", "template", "x", checkout.Chart(), "-f", inFile(t, "values.yaml", string(text))); got != whole {
			t.Errorf("with the values %s the chart renders\n%s\nand with none\n%s", text, got, whole)
		}
	}
	// What a null takes away of these is meant.
	if limited := only[appsv1.Deployment](t, render(t, "resources.limits.memory=null"), "Deployment").Spec.Template.Spec.Containers[0].Resources.Limits; len(limited) > 0 {
		t.Errorf("without resources.limits.memory the limits are %v", limited)
	}
}

// without returns values in which everything of a depth is null, and resources and labels are not.
func without(values map[string]any, depth int) map[string]any {
	less := map[string]any{}
	for key, value := range values {
		below, isMap := value.(map[string]any)
		switch {
		case depth == 0:
			less[key] = nil
		case isMap && key != "resources" && key != "labels":
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
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(text.String()+"]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
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
	for _, prefix := range []string{"pillion.dev", "side.example.com"} {
		objects := render(t, "annotationPrefix="+prefix)
		seen := 0
		for _, w := range only[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration").Webhooks {
			if !strings.HasPrefix(w.Name, "required") {
				continue
			}
			seen++
			byLabel := metav1.LabelSelectorRequirement{Key: prefix + "/required", Operator: metav1.LabelSelectorOpIn, Values: []string{"true"}}
			if !requires(w.NamespaceSelector, byLabel) || !excludesItself(w.NamespaceSelector) {
				t.Errorf("entry %s selects namespaces by\n%s", w.Name, pretty(w.NamespaceSelector))
			}
		}
		if seen != 2 {
			t.Errorf("%d entries verify, want 2", seen)
		}
		w := only[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration").Webhooks[0]
		if w.Name != "namespaces."+prefix || *w.FailurePolicy != admissionregistrationv1.Ignore || *w.SideEffects != admissionregistrationv1.SideEffectClassNone ||
			*w.ReinvocationPolicy != admissionregistrationv1.IfNeededReinvocationPolicy || *w.MatchPolicy != admissionregistrationv1.Equivalent ||
			*w.TimeoutSeconds != 10 || *w.ClientConfig.Service.Path != "/mutate/namespaces" || w.ClientConfig.CABundle != nil ||
			// A label of the name is not there yet where the API server makes the name.
			pretty(w.NamespaceSelector) != pretty(metav1.LabelSelector{}) || !passesOverItself(w) {
			t.Errorf("the entry for namespaces is\n%s", pretty(w))
		}
	}
	off := render(t, "webhook.required.enabled=false")
	c := only[admissionregistrationv1.MutatingWebhookConfiguration](t, off, "MutatingWebhookConfiguration")
	if len(c.Webhooks) != 4 || c.Webhooks[0].Name != "namespaces.pillion.dev" {
		t.Errorf("without webhook.required the entries are\n%s", pretty(c.Webhooks))
	}
	if args := only[appsv1.Deployment](t, off, "Deployment").Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--keep-required-label=false") {
		t.Errorf("without webhook.required the arguments are %q", args)
	}
}

func TestTheChartRendersTheSameEachTime(t *testing.T) {
	t.Parallel()
	if first, second := pretty(render(t)), pretty(render(t)); first != second {
		t.Errorf("rendered twice:\n%s\nand\n%s", first, second)
	}
}

func TestValuesReachTheObjects(t *testing.T) {
	t.Parallel()
	objects := render(t, "library={fluent-bit,environment}", "replicas=3", "values.cluster=blue", "templates.own.inject.spec.hostNetwork=true",
		"annotationPrefix=side.example.com", "webhook.name=second", "crds.install=false", "podDisruptionBudget.enabled=false")
	deployment := only[appsv1.Deployment](t, objects, "Deployment")
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, arg := range []string{"--library=fluent-bit,environment", "--annotation-prefix=side.example.com", "--webhook-configuration=second"} {
		if !slices.Contains(container.Args, arg) {
			t.Errorf("the arguments %q lack %s", container.Args, arg)
		}
	}
	if *deployment.Spec.Replicas != 3 || len(container.VolumeMounts) != 2 {
		t.Errorf("%d replicas, mounts %v; want 3, and the templates' and the values' files", *deployment.Spec.Replicas, container.VolumeMounts)
	}
	if objects.has("CustomResourceDefinition") || objects.has("PodDisruptionBudget") {
		t.Error("what the values turn off is rendered")
	}
	c := only[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration")
	if c.Name != "second" || c.Webhooks[1].Name != "requested.side.example.com" || c.Webhooks[3].NamespaceSelector.MatchExpressions[0].Key != "side.example.com/injection" {
		t.Errorf("with another prefix the registration is\n%s", pretty(c))
	}
	if defaults := render(t); !defaults.has("CustomResourceDefinition") || !defaults.has("PodDisruptionBudget") {
		t.Error("the CRD and the disruption budget are not rendered by default")
	}
}

// A registry for all charts takes the place of the one in the image's repository, also where a
// parent chart gives it.
func TestAGlobalRegistryTakesThePlaceOfTheImages(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	version := strings.TrimPrefix(image(t), "ghcr.io/pillion-dev/pillion:")
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
		if got := image(t, c.sets...); got != c.want {
			t.Errorf("%v: %s, want %s", c.sets, got, c.want)
		}
	}
	parent := t.TempDir()
	for path, text := range map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: parent\nversion: 0.1.0\n",
		"values.yaml": "global: {imageRegistry: registry.example.com, imagePullSecrets: [x]}\npillion: {library: [fluent-bit]}\n",
	} {
		if err := os.WriteFile(filepath.Join(parent, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(parent, "charts", "pillion"), os.DirFS(checkout.Chart())); err != nil {
		t.Fatal(err)
	}
	if out, want := must(t, "", "helm", "template", "parent", parent, "-n", ground.Namespace), "image: registry.example.com/pillion-dev/pillion:"+version+"\n"; !strings.Contains(out, want) {
		t.Errorf("below a parent chart the image is not %s", want)
	}
}

// image is the image of Pillion's pods.
func image(t *testing.T, sets ...string) string {
	t.Helper()
	return only[appsv1.Deployment](t, render(t, sets...), "Deployment").Spec.Template.Spec.Containers[0].Image
}

func TestTheAdminPortIsThatOfTheValues(t *testing.T) {
	t.Parallel()
	objects := render(t, "adminPort=9100")
	container := only[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0]
	if !slices.Contains(container.Args, "--admin-listen=:9100") || !slices.Contains(container.Ports, corev1.ContainerPort{Name: "admin", ContainerPort: 9100}) {
		t.Errorf("the arguments are %q, the ports %v", container.Args, container.Ports)
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

func TestNoRoleOfTheChartHasAWildcard(t *testing.T) {
	t.Parallel()
	for _, object := range render(t) {
		if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
				t.Errorf("%s %s has the rule %+v", object.GetKind(), object.GetName(), rule)
			}
		}
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

// Not in parallel: it installs a second Pillion that sees every pod.
func TestASecondInstallWithAnotherPrefixLivesBesideTheFirst(t *testing.T) {
	const prefix = "side.example.com"
	own := manifest{name: "own", spec: sidecarSpec}
	file := filepath.Join(t.TempDir(), "own.yaml")
	text := strings.ReplaceAll(own.yaml(), "pillion.dev/v1alpha1", prefix+"/v1alpha1")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	home := newNamespace(t, nil, nil).name
	must(t, "", "helm", "install", "second", checkout.Chart(), "-n", home, "--set", "annotationPrefix="+prefix, "--set", "webhook.name=second", "--set-file", "templates.own="+file,
		"--set", "templates.audit.required=true", "--set", "templates.audit.match.namespaceSelector.matchLabels.team="+home, "--set", "templates.audit.inject.metadata.labels.audited=yes")
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := ground.Run(ctx, shared, "helm", "uninstall", "second", "-n", home)
		err = errors.Join(err, shared.Rollout(ctx, home))
		_, crd := ground.Run(ctx, shared, "kubectl", "delete", "crd", "sidecartemplates."+prefix)
		if err = errors.Join(err, crd); err != nil {
			t.Error(err)
		}
	})
	if err := shared.Rollout(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	n := newNamespace(t, map[string]string{injectAnnotation: "fluent-bit", prefix + "/inject": own.name, own.name + "." + prefix + "/log-level": "debug"}, nil)
	eventually(t, soon, func() error {
		pod, err := n.preview(t, newPod("web", nil))
		if err == nil && (sidecar(pod, own.name) == nil || sidecar(pod, "fluent-bit") == nil) {
			err = fmt.Errorf("containers %s, want a sidecar of each install", containerNames(pod))
		}
		if err == nil && environment(sidecar(pod, own.name), "LOG_LEVEL") != "debug" {
			err = fmt.Errorf("a parameter under the other prefix has no effect:\n%s", pretty(sidecar(pod, own.name)))
		}
		return err
	})
	// Each keeps its own label, and neither takes the other's off.
	for range 2 {
		eventually(t, soon, func() error {
			if labels := n.labels(t); labels[injectionLabel] != "enforced" || labels[prefix+"/injection"] != "enforced" {
				return fmt.Errorf("the labels of a namespace that asks both are %v", labels)
			}
			return nil
		})
		must(t, "", "kubectl", "label", "namespace", n.name, "touched="+unique("x"), "--overwrite") // both look at it again
	}
	// The second one's leaves the first one's namespaces alone.
	audited := newNamespace(t, nil, map[string]string{"team": home})
	_, required := newRequired(t, nil)
	eventually(t, soon, func() error {
		labels, others := audited.labels(t), required.labels(t)
		if labels[prefix+"/required"] != "true" || labels[requiredLabel] != "" || others[requiredLabel] != "true" || others[prefix+"/required"] != "" {
			return fmt.Errorf("the namespaces have the labels %v and %v", labels, others)
		}
		return nil
	})
	for _, name := range []string{configuration, "second"} {
		c, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || len(c.Webhooks) == 0 || bytes.Equal(c.Webhooks[0].ClientConfig.CABundle, nil) {
			t.Errorf("configuration %s: %v", name, err)
		}
	}
}
