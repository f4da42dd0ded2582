package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// backToInstalled gives the release its values back when the test ends.
func backToInstalled(t *testing.T) {
	t.Helper()
	atTheEnd(t, func(ctx context.Context) error {
		_, err := ground.Run(ctx, shared, "helm", upgradeOf(installed...)...)
		return errors.Join(err, shared.Rollout(ctx, ground.Namespace))
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
		wantNoError(t, refusedWith(attempt(t, "", "helm", append(without, more...)...), sentence, "Nothing was changed"))
	}
	if after := must(t, "", "helm", "history", ground.Release, "-n", ground.Namespace, "--max=1"); after != before {
		t.Errorf("the release became\n%s", after)
	}
	wantNoError(t, refusedWith(attempt(t, "", "kubectl", "delete", "sidecartemplate", "debug-toolbox"), sentence))
	if c := load.counts(); c[refused]+c[bare] > 0 || c[injected] < 10 {
		t.Errorf("pods meanwhile: %s, want many, and all injected", load)
	}
	// What the sentence names lets it go.
	does(t, "kubectl annotate sidecartemplate debug-toolbox pillion.dev/allow-delete=true")
	must(t, "", "helm", without...)
	eventually(t, soon, func() error { return refusedWith(errorOf(n.preview(t, newPod("probe", nil))), "UnknownTemplate") })
}

// An upgrade changes nothing of what was suspended by hand.
func TestASuspensionByHandOutlivesAnUpgrade(t *testing.T) {
	atTheEnd(t, func(ctx context.Context) error {
		return errorOf(ground.Run(ctx, shared, "kubectl", "patch", "sct", "debug-toolbox", "--type=merge", "-p", `{"spec":{"suspend":null}}`))
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
	atTheEnd(t, func(ctx context.Context) error { return errorOf(ground.Run(ctx, shared, "kubectl", apply...)) })
	must(t, "", "kubectl", "annotate", "crd/sidecartemplates.pillion.dev", "crd/namespacedsidecartemplates.pillion.dev", "pillion.dev/crd-revision=0", "--overwrite")
	const command = "helm show crds CHART | kubectl apply --server-side --force-conflicts --field-manager=helm -f -"
	for _, more := range [][]string{{"--dry-run=server"}, nil} {
		wantNoError(t, refusedWith(attempt(t, "", "helm", upgradeOf(append(installed, more...)...)...), "Nothing was changed", command))
	}
	does(t, strings.Replace(command, "CHART", "charts/pillion", 1))
	must(t, "", "helm", upgradeOf(installed...)...)
}

// API servers keep an unknown field, so that the guard can name it.
func TestAMisspeltFieldIsRefusedWithTheNearestName(t *testing.T) {
	t.Parallel()
	m := manifest{name: unique("misspelt"), spec: sidecarSpec}
	text := strings.Replace(m.yaml(), "name: logLevel, type: string", "name: logLevel, defualt: x, type: string", 1)
	err := attempt(t, text, "kubectl", "apply", "--server-side", "--validate=false", "-f", "-")
	wantNoError(t, refusedWith(err, "defualt: unknown field; did you mean default?"))
	err = attempt(t, strings.Replace(m.yaml(), "spec:", "spec:\n  oder: 1", 1), "kubectl", "create", "--validate=false", "-f", "-")
	wantNoError(t, refusedWith(err, "oder: unknown field; did you mean order?"))
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
	uninstall := func() error { return attempt(t, "", "helm", "uninstall", ground.Release, "-n", ground.Namespace) }
	if err := uninstall(); err != nil {
		t.Logf("without the CRD: %v", err)
		does(t, "helm show crds charts/pillion | kubectl apply --server-side --force-conflicts --field-manager=helm -f -")
		eventually(t, soon, uninstall)
	}
	rolledOut(t, ground.Namespace)
	isUnregistered(t)
	wantNoError(t, errorOf(n.create(t, newPod("free", nil))), "a pod after the uninstall:")
}
