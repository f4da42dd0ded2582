package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/docs/transcript"
	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

// platforms are the blocks of values in docs/how-to/platforms.md, by the heading that they stand under.
func platforms(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(checkout.Path("docs", "how-to", "platforms.md"))
	expectNoError(t, err)
	found := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		heading, _, _ := strings.Cut(section, "\n")
		for _, b := range transcript.Blocks(section) {
			if b.Fence == "yaml" {
				found[heading] = b.Text
			}
		}
	}
	if len(found) < 5 {
		t.Fatalf("docs/how-to/platforms.md has values for %d platforms only", len(found))
	}
	return found
}

// onPlatform renders the chart with the values of a platform, and more arguments of Helm.
func onPlatform(t *testing.T, values string, more ...string) rendered {
	t.Helper()
	return objectsIn(t, must(t, "", "helm", append([]string{"template", ground.Release, checkout.Chart(), "-n", ground.Namespace, "-f", inFile(t, "platform.yaml", values)}, more...)...))
}

// chartTypes are the Go types of all that the chart renders, but for cert-manager's, whose own CRDs judge
// them in TestCertificates.
var chartTypes = func() *runtime.Scheme {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, monitoringv1.AddToScheme} {
		if err := add(types); err != nil {
			panic(err)
		}
	}
	return types
}()

// Objects have no field that their type does not have, and an API server takes them. The proof
// namespace is one that is there: nothing is made here.
func TestAnAPIServerTakesWhatEachPlatformsValuesRender(t *testing.T) {
	t.Parallel()
	all := platforms(t)
	all["monitoring"] = "metrics: {serviceMonitor: {enabled: true}, rules: {enabled: true}, dashboard: {enabled: true}}"
	all["nothing"] = ""
	all["everything else"] = "networkPolicy: {enabled: true, metrics: [{podSelector: {}}]}\npriorityClassName: system-cluster-critical\naffinity: {nodeAffinity: {}}\ntolerations: [{operator: Exists}]\nrbac: {createSecrets: false, everyoneReadsTemplates: false}\ntemplateValues: {a: b}\nwebhook: {clientCA: '-----BEGIN CERTIFICATE-----'}"
	all["labels and annotations that the chart has as well"] = "commonLabels: {release: all, grafana_dashboard: all}\npodLabels: {release: pods}\npodAnnotations: {checksum/settings: x, kubectl.kubernetes.io/default-container: x}\ntemplateValues: {a: b}\n" +
		"metrics: {labels: {release: monitor}, serviceMonitor: {enabled: true}, rules: {enabled: true}, dashboard: {enabled: true}}"
	all["names that YAML reads as something else"] = "fullnameOverride: 'true'\npriorityClassName: 'true'\nrbac: {createSecrets: false}\n" +
		"templates: {'12': {required: true, match: {namespaceSelector: {matchLabels: {a: b}}}, inject: {spec: {containers: [{name: a, image: 'a:1'}]}}}}\nwebhook: {clientCA: '-----BEGIN CERTIFICATE-----', clientNames: ['CN: a #1']}"
	home := newNamespace(t, nil, nil).name
	must(t, "", "kubectl", "create", "namespace", home+"-proof")
	t.Cleanup(func() { remove(t, "namespace/"+home+"-proof") })
	for name, values := range all {
		must(t, "", "helm", "lint", "--strict", checkout.Chart(), "-f", inFile(t, "platform.yaml", values))
		var served bytes.Buffer
		for _, object := range onPlatform(t, values, "-n", home, "--set", "webhook.name="+home) {
			kind := object.GroupVersionKind()
			if kind.Group != v1alpha1.Group { // templates have the compiler
				typed, err := chartTypes.New(kind)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
					t.Errorf("%s: %s %s: %v", name, kind.Kind, object.GetName(), err)
				}
			}
			if kind.Group == monitoringv1.SchemeGroupVersion.Group || kind.Kind == "Namespace" {
				continue
			}
			text, err := yaml.Marshal(object.Object)
			expectNoError(t, err)
			fmt.Fprintf(&served, "---\n%s", text)
		}
		if _, stderr, err := run(t, served.String(), "kubectl", "apply", "--server-side", "--force-conflicts", "--field-manager=try", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
			t.Errorf("%s: %v: %s", name, err, stderr)
		}
	}
}

func TestEachPlatformsValuesSayWhatThePlatformNeeds(t *testing.T) {
	t.Parallel()
	all := platforms(t)
	deployed := func(platform string) (appsv1.Deployment, corev1.PodSpec) {
		t.Helper()
		values, ok := all[platform]
		if !ok {
			t.Fatalf("docs/how-to/platforms.md has no values for %s", platform)
		}
		d := only[appsv1.Deployment](t, onPlatform(t, values), "Deployment")
		return d, d.Spec.Template.Spec
	}
	for _, object := range onPlatform(t, all["OpenShift"]) {
		for _, field := range []string{"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"} {
			if text := pretty(object.Object); strings.Contains(text, `"`+field+`"`) && object.GetKind() != "CustomResourceDefinition" {
				t.Errorf("%s %s has %s, which OpenShift chooses", object.GetKind(), object.GetName(), field)
			}
		}
	}

	d, pod := deployed("EKS with a network of your own")
	if ports := pod.Containers[0].Ports; !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet || ports[0].ContainerPort != 10260 || ports[1].ContainerPort != 10261 ||
		d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 1 || d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue() != 0 {
		t.Errorf("on EKS the pods are\n%s\nand are replaced by %s", pretty(pod), pretty(d.Spec.Strategy))
	}
	refuses(t, []string{"hostNetwork=true"}, []string{"10250", "kubelet", "webhook.port"})
	refuses(t, []string{"hostNetwork=true", "webhook.port=443"}, []string{"below 1024", "webhook.port"})
	refuses(t, []string{"webhook.port=8080"}, []string{"webhook.port and adminPort are both 8080"})

	if _, pod := deployed("Private GKE clusters"); pod.Containers[0].Ports[0].ContainerPort != 10250 {
		t.Errorf("on GKE the webhook's port is %d", pod.Containers[0].Ports[0].ContainerPort)
	}
	objects := onPlatform(t, all["AKS"])
	for _, annotations := range []map[string]string{
		only[admissionregistrationv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration").Annotations,
		only[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration").Annotations,
	} {
		if annotations["admissions.enforcer/disabled"] != "true" {
			t.Errorf("on AKS the annotations are %v", annotations)
		}
	}

	objects = onPlatform(t, all["Private registries"])
	if spec := only[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec; !strings.HasPrefix(spec.Containers[0].Image, "registry.example.com/pillion-dev/") || !slices.Equal(spec.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "mirror"}}) {
		t.Errorf("with a private registry the image is %s, pulled with %v", spec.Containers[0].Image, spec.ImagePullSecrets)
	}

	d, _ = deployed("More of the pod")
	objects = onPlatform(t, all["More of the pod"])
	for _, object := range objects {
		if object.GetLabels()["team"] != "platform" {
			t.Errorf("%s %s lacks the common label", object.GetKind(), object.GetName())
		}
	}
	if labels := d.Spec.Selector.MatchLabels; labels["team"] != "" || d.Spec.Template.Labels["team"] != "platform" || d.Name != "platform-sidecars" {
		t.Errorf("the Deployment %s selects by %v pods with %v", d.Name, labels, d.Spec.Template.Labels)
	}
	objects = onPlatform(t, "commonLabels: {release: all}\npodAnnotations: {checksum/settings: mine, kubectl.kubernetes.io/default-container: mine}\ntemplateValues: {a: b}\nmetrics: {labels: {release: monitor}, serviceMonitor: {enabled: true}}\n"+
		"certs: {provider: cert-manager}")
	if got := only[monitoringv1.ServiceMonitor](t, objects, "ServiceMonitor").Labels["release"]; got != "monitor" {
		t.Errorf("a label of the ServiceMonitor is %q, as commonLabels has it", got)
	}
	if a := only[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Annotations; a["checksum/settings"] == "mine" || a["kubectl.kubernetes.io/default-container"] != "mine" {
		t.Errorf("the pods' annotations are %v", a)
	}
	refuses(t, []string{`commonLabels.app\.kubernetes\.io/name=x`}, []string{"commonLabels"})
}

// AKS' admissions enforcer adds requirements to the selectors of webhooks, and takes these fields over.
func TestAnotherFieldManagerMayAddToTheSelectors(t *testing.T) {
	t.Parallel()
	g := newCertsGround(t)
	g.install(t, true)
	configurations := g.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	ofAKS := metav1.LabelSelectorRequirement{Key: "kubernetes.azure.com/managedby", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"aks"}}
	enforce := func(ctx context.Context) error {
		c, err := configurations.Get(ctx, configuration, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range c.Webhooks {
			if s := c.Webhooks[i].NamespaceSelector; !requires(s, ofAKS) {
				s.MatchExpressions = append(s.MatchExpressions, ofAKS)
			}
		}
		_, err = configurations.Update(ctx, c, metav1.UpdateOptions{FieldManager: "admissionsenforcer"})
		return err
	}
	added := func() bool {
		t.Helper()
		c, err := configurations.Get(t.Context(), configuration, metav1.GetOptions{})
		expectNoError(t, err)
		return !slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return !requires(w.NamespaceSelector, ofAKS) })
	}
	g.under(t, func(ctx context.Context) error {
		return enforce(ctx)
	})
	// Pillion writes its caBundle beside the other manager.
	expectNoError(t, publish(t.Context(), g.client, configuration, nil))
	eventually(t, soon, func() error {
		_, err := g.bundle(t.Context())
		return err
	})
	if !added() {
		t.Error("Pillion took the other manager's requirements away")
	}
	manifests := g.run(t, "helm", "get", "manifest", ground.Release, "-n", ground.Namespace)
	file := inFile(t, "manifests.yaml", manifests)
	apply := []string{"apply", "--server-side", "--field-manager=gitops", "--dry-run=server", "-f", file}
	if _, err := ground.Run(t.Context(), g, "kubectl", apply...); err == nil || !strings.Contains(err.Error(), "admissionsenforcer") || !strings.Contains(err.Error(), "namespaceSelector") {
		t.Errorf("server-side apply beside the other manager: %v, want a conflict at namespaceSelector", err)
	}
	g.run(t, "kubectl", append(apply, "--force-conflicts")...)
	upgrade := upgradeOf("--reset-then-reuse-values", "--set", "webhook.timeoutSeconds=9")
	if _, err := ground.Run(t.Context(), g, "helm", upgrade...); err != nil { // Helm 4 applies on the server's side
		if !strings.Contains(err.Error(), `conflicts with "admissionsenforcer"`) {
			t.Fatal(err)
		}
		g.run(t, "helm", append(upgrade, "--force-conflicts")...)
	}
	if _, err := g.bundle(t.Context()); err != nil {
		t.Errorf("after the upgrade: %v", err)
	}
	if c, err := g.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{}); err != nil || *c.Webhooks[1].TimeoutSeconds != 9 {
		t.Errorf("the upgrade changed nothing: %v", err)
	}
}
