package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
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

// chartTypes are the Go types of all that the chart renders, but for cert-manager's, whose own CRDs judge
// them in TestCertificates.
var chartTypes = func() *runtime.Scheme {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, monitoringv1.AddToScheme} {
		utilruntime.Must(add(types))
	}
	return types
}()

// Objects have no field that their type does not have, and an API server takes them. The proof
// namespace is one that is there: nothing is made here.
func TestAnAPIServerTakesWhatEachPlatformsValuesRender(t *testing.T) {
	t.Parallel()
	var more map[string]string
	fromYAML(t, "testdata/platforms.yaml", &more)
	all := platforms(t)
	maps.Copy(all, more)
	home := newNamespace(t, nil, nil).name
	must(t, "", "kubectl", "create", "namespace", home+"-proof")
	t.Cleanup(func() { remove(t, "namespace/"+home+"-proof") })
	for name, values := range all {
		file := inFile(t, "platform.yaml", values)
		must(t, "", "helm", "lint", "--strict", checkout.Chart(), "-f", file)
		var served bytes.Buffer
		out := must(t, "", "helm", "template", ground.Release, checkout.Chart(), "-n", home, "-f", file, "--set", "webhook.name="+home)
		for _, object := range objectsIn(t, out) {
			kind := object.GroupVersionKind()
			if kind.Group != v1alpha1.Group { // templates have the compiler
				typed, err := chartTypes.New(kind)
				expectNoError(t, err)
				wantNoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true), name, kind.Kind, object.GetName())
			}
			if kind.Group == monitoringv1.SchemeGroupVersion.Group || kind.Kind == "Namespace" {
				continue
			}
			text, err := yaml.Marshal(object.Object)
			expectNoError(t, err)
			fmt.Fprintf(&served, "---\n%s", text)
		}
		apply := []string{"apply", "--server-side", "--force-conflicts", "--field-manager=try", "--dry-run=server", "--validate=strict", "-f", "-"}
		wantNoError(t, attempt(t, served.String(), "kubectl", apply...), name)
	}
}

// AKS' admissions enforcer adds requirements to the selectors of webhooks, and takes these fields over. Not in
// parallel: the release is everybody's.
func TestAnotherFieldManagerMayAddToTheSelectors(t *testing.T) {
	before := wholeRelease(t)
	ofAKS := metav1.LabelSelectorRequirement{Key: "kubernetes.azure.com/managedby", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"aks"}}
	isOfAKS := func(r metav1.LabelSelectorRequirement) bool { return r.Key == ofAKS.Key }
	// enforce writes the selectors of all entries, with AKS' requirement or without.
	enforce := func(with bool) {
		t.Helper()
		c := webhookConfiguration(t)
		for _, w := range c.Webhooks {
			s := w.NamespaceSelector
			if s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, isOfAKS); with {
				s.MatchExpressions = append(s.MatchExpressions, ofAKS)
			}
		}
		_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), c, metav1.UpdateOptions{FieldManager: "admissionsenforcer"})
		expectNoError(t, err)
	}
	helm := func(args ...string) {
		t.Helper()
		if err := attempt(t, "", "helm", upgradeOf(args...)...); err != nil { // Helm 4 applies on the server's side
			expectNoError(t, refusedWith(err, `conflicts with "admissionsenforcer"`))
			must(t, "", "helm", upgradeOf(append(args, "--force-conflicts")...)...)
		}
	}
	backToInstalled(t)
	enforce(true)
	// Pillion writes its caBundle beside the other manager.
	expectNoError(t, publish(t.Context(), client, configuration, nil))
	waitRewritten(t)
	for _, w := range webhookConfiguration(t).Webhooks {
		if !slices.ContainsFunc(w.NamespaceSelector.MatchExpressions, isOfAKS) {
			t.Errorf("Pillion took the other manager's requirement away from %s", w.Name)
		}
	}
	file := inFile(t, "manifests.yaml", must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace))
	apply := []string{"apply", "--server-side", "--field-manager=gitops", "--dry-run=server", "-f", file}
	wantNoError(t, refusedWith(attempt(t, "", "kubectl", apply...), "admissionsenforcer", "namespaceSelector"))
	must(t, "", "kubectl", append(apply, "--force-conflicts")...)
	helm(append(slices.Clone(installed), "--set", "webhook.timeoutSeconds=9")...)
	if c := webhookConfiguration(t); *c.Webhooks[1].TimeoutSeconds != 9 || len(c.Webhooks[1].ClientConfig.CABundle) == 0 {
		t.Errorf("after the upgrade the entry is %s", pretty(c.Webhooks[1]))
	}
	enforce(false)
	helm(installed...)
	isBack(t, before)
}
