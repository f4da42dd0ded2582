package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// backToInstalled gives the release its values back when the test ends.
func backToInstalled(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		_, err := ground.Run(context.Background(), shared, "helm", upgradeOf(installed...)...)
		if err = errors.Join(err, shared.Rollout(context.Background(), ground.Namespace)); err != nil {
			t.Error(err)
		}
	})
}

// The chart says it before anything changes, and the guard says the same where the chart cannot look. Under load no
// pod is refused, and none is without its sidecar.
func TestAnUpgradeThatDropsATemplateThatNamespacesNameIsRefusedAndChangesNothing(t *testing.T) {
	backToInstalled(t)
	without := upgradeOf("--reset-values", "--set", "library={fluent-bit,environment}", "--set", "replicas=1", "--set", "enforcement=Asked")
	n := newNamespace(t, asking("debug-toolbox"), enforced())
	injects(t, n, "debug-toolbox")
	before := must(t, "", "helm", "history", ground.Release, "-n", ground.Namespace, "--max=1")
	load := underLoad(t, n, "debug-toolbox")
	sentence := "the SidecarTemplate debug-toolbox is in use: named by pillion.dev/inject in the namespace " + n.name + ", whose pods would be refused. To have it injected nowhere, and no pod refused: kubectl patch sidecartemplate debug-toolbox --type=merge -p '{\"spec\":{\"suspend\":true}}'. To delete it nevertheless: kubectl annotate sidecartemplate debug-toolbox pillion.dev/allow-delete=true"
	for _, more := range [][]string{{"--dry-run=server"}, nil} {
		if _, stderr, err := run(t, "", "helm", append(without, more...)...); err == nil || !strings.Contains(stderr, sentence) || !strings.Contains(stderr, "Nothing was changed") {
			t.Errorf("helm %q: %v\n%s\nwant\n%s", append(without, more...), err, stderr, sentence)
		}
	}
	if after := must(t, "", "helm", "history", ground.Release, "-n", ground.Namespace, "--max=1"); after != before {
		t.Errorf("the release became\n%s", after)
	}
	if _, stderr, err := run(t, "", "kubectl", "delete", "sidecartemplate", "debug-toolbox"); err == nil || !strings.Contains(stderr, sentence) {
		t.Errorf("the guard says %v\n%s\nwant\n%s", err, stderr, sentence)
	}
	if c := load.counts(); c[refused]+c[bare] > 0 || c[injected] < 10 {
		t.Errorf("pods meanwhile: %s, want many, and all injected", load)
	}
	// What the sentence names lets it go.
	does(t, "kubectl annotate sidecartemplate debug-toolbox pillion.dev/allow-delete=true")
	must(t, "", "helm", without...)
	eventually(t, soon, func() error {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, err := n.preview(t, newPod("probe", nil)); err == nil || !strings.Contains(err.Error(), "UnknownTemplate") {
			return fmt.Errorf("a pod that names the template: %v", err)
		}
		return nil
	})
}

// An upgrade changes nothing of what was suspended by hand.
func TestASuspensionByHandOutlivesAnUpgrade(t *testing.T) {
	t.Cleanup(func() {
		if _, err := ground.Run(context.Background(), shared, "kubectl", "patch", "sct", "debug-toolbox", "--type=merge", "-p", `{"spec":{"suspend":null}}`); err != nil {
			t.Error(err)
		}
	})
	backToInstalled(t)
	must(t, "", "kubectl", "patch", "sct", "debug-toolbox", "--type=merge", "-p", `{"spec":{"suspend":true}}`)
	must(t, "", "helm", upgradeOf(append(installed, "--set", "parameterDefaults.debug-toolbox.memory=96Mi")...)...)
	if got := must(t, "", "kubectl", "get", "sct", "debug-toolbox", "-o", "jsonpath={.spec.suspend} {.spec.parameters[?(@.name==\"memory\")].default}"); got != "true 96Mi" {
		t.Errorf("after the upgrade the template has %q", got)
	}
}

// Helm does not upgrade CRDs. The chart refuses to go on with older ones, with the command that does.
func TestAnUpgradeWithOlderCRDsIsRefusedWithTheCommand(t *testing.T) {
	apply := []string{"apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", checkout.Path("charts", "pillion", "crds")}
	t.Cleanup(func() {
		if _, err := ground.Run(context.Background(), shared, "kubectl", apply...); err != nil {
			t.Error(err)
		}
	})
	must(t, "", "kubectl", "annotate", "crd/sidecartemplates.pillion.dev", "crd/namespacedsidecartemplates.pillion.dev", "pillion.dev/crd-revision=0", "--overwrite")
	const command = "helm show crds CHART | kubectl apply --server-side --force-conflicts --field-manager=helm -f -"
	for _, more := range [][]string{{"--dry-run=server"}, nil} {
		if _, stderr, err := run(t, "", "helm", upgradeOf(append(installed, more...)...)...); err == nil || !strings.Contains(stderr, "Nothing was changed") || !strings.Contains(stderr, command) {
			t.Errorf("with an older CRD: %v\n%s", err, stderr)
		}
	}
	does(t, strings.Replace(command, "CHART", "charts/pillion", 1))
	must(t, "", "helm", upgradeOf(installed...)...)
}

// API servers keep an unknown field, so that the guard can name it.
func TestAMisspeltFieldIsRefusedWithTheNearestName(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("misspelt"), spec: sidecarSpec}
	text := strings.Replace(m.yaml(), "name: logLevel, type: string", "name: logLevel, defualt: x, type: string", 1)
	if text == m.yaml() {
		t.Fatalf("the manifest has no such parameter:\n%s", text)
	}
	if _, stderr, err := run(t, text, "kubectl", "apply", "--server-side", "--validate=false", "-f", "-"); err == nil || !strings.Contains(stderr, "defualt: unknown field; did you mean default?") {
		t.Errorf("kubectl apply: %v\n%s", err, stderr)
	}
	if _, stderr, err := run(t, strings.Replace(m.yaml(), "spec:", "spec:\n  oder: 1", 1), "kubectl", "create", "--validate=false", "-f", "-"); err == nil || !strings.Contains(stderr, "oder: unknown field; did you mean order?") {
		t.Errorf("a field of the spec: %v\n%s", err, stderr)
	}
}

// Who deletes the CRD before the release: pods are injected until the release goes. The uninstall fails half done, and
// what the page says ends it.
func TestACRDThatIsDeletedBeforeTheReleaseIsBroughtBackAndTheReleaseRemoved(t *testing.T) {
	n := newNamespace(t, asking("fluent-bit"), enforced())
	injects(t, n, "fluent-bit")
	reinstalledAtTheEnd(t)
	must(t, "", "kubectl", "delete", "crd", "sidecartemplates.pillion.dev", "--timeout=60s")
	for range 20 {
		if pod, err := n.preview(t, newPod("web", nil)); err != nil || sidecar(pod, "fluent-bit") == nil {
			t.Fatalf("without the CRD: %v", err)
		}
	}
	_, _, err := run(t, "", "helm", "uninstall", ground.Release, "-n", ground.Namespace)
	t.Logf("helm uninstall without the CRD: %v", err)
	if err != nil {
		does(t, "helm show crds charts/pillion | kubectl apply --server-side --force-conflicts --field-manager=helm -f -")
		eventually(t, soon, func() error {
			if _, stderr, err := run(t, "", "helm", "uninstall", ground.Release, "-n", ground.Namespace); err != nil {
				return fmt.Errorf("%w: %s", err, stderr)
			}
			return nil
		})
	}
	rolledOut(t, ground.Namespace)
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("looking for the webhook configuration: %v, want that it is gone", err)
	}
	if _, err := n.create(t, newPod("free", nil)); err != nil {
		t.Errorf("a pod after the uninstall: %v", err)
	}
}
