package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// The tests of this file take Pillion away from all others, so none runs in parallel,
// and each leaves one ready replica.

// caSecret is the Secret that replicas share their CA through.
const caSecret = "pillion-ca"

// scale is Ground.Scale for a number of replicas that have to become ready.
func scale(t *testing.T, n int) time.Duration {
	t.Helper()
	began := time.Now()
	expectNoError(t, shared.Scale(t.Context(), ground.Namespace, n))
	return time.Since(began)
}

// kill ends the replicas.
func kill(t *testing.T) {
	t.Helper()
	expectNoError(t, shared.Kill(ground.Namespace))
}

// rolledOut waits until the replicas in the namespace are those of the Deployment, and ready.
func rolledOut(t *testing.T, namespace string) {
	t.Helper()
	expectNoError(t, shared.Rollout(t.Context(), namespace))
}

// install installs the release that all tests share.
func install(t *testing.T) {
	t.Helper()
	expectNoError(t, ground.Install(t.Context(), shared, checkout, installed...))
}

// upgradeOf are Helm's arguments for an upgrade of that release.
func upgradeOf(more ...string) []string {
	return append([]string{"upgrade", ground.Release, checkout.Chart(), "-n", ground.Namespace}, more...)
}

// backToOne leaves one ready replica for the tests that follow.
func backToOne(t *testing.T) {
	atTheEnd(t, func(ctx context.Context) error { return shared.Scale(ctx, ground.Namespace, 1) })
}

// injects waits until a pod of the namespace gets the sidecar.
func injects(t *testing.T, n *namespace, name string) {
	t.Helper()
	n.previews(t, soon, newPod("probe", nil), func(pod *corev1.Pod) bool { return sidecar(pod, name) != nil })
}

func TestAnUpgradeWithoutChangesChangesNothing(t *testing.T) {
	manifests := must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace)
	look := func() string { return must(t, manifests, "kubectl", "get", "-f", "-", "-o", "yaml") }
	waitRewritten(t)
	before, replica := look(), shared.Replicas(ground.Namespace)[0]
	must(t, "", "helm", upgradeOf(installed...)...)
	if after := look(); clean(after) != clean(before) {
		t.Errorf("helm upgrade without changes changed the live objects\n%s\nto\n%s", before, after)
	}
	if now := must(t, "", "helm", "get", "manifest", ground.Release, "-n", ground.Namespace); now != manifests {
		t.Errorf("the chart rendered again differs\n%s\nfrom\n%s", now, manifests)
	}
	wantNoError(t, errorOf(publishedBundle(t)), "after the upgrade:")
	// Not applied for good: who applies takes the fields over, and Helm 4 respects that.
	for _, flags := range [][]string{nil, {"--server-side", "--force-conflicts", "--field-manager=gitops"}} {
		err := attempt(t, manifests, "kubectl", append([]string{"diff", "-f", "-"}, flags...)...)
		wantNoError(t, err, "kubectl apply of the rendered chart would change the live objects:")
	}
	rolledOut(t, ground.Namespace)
	if now := shared.Replicas(ground.Namespace); len(now) != 1 || now[0].PID != replica.PID {
		t.Errorf("the upgrade restarts Pillion: %+v, before %+v", now, replica)
	}
}

// The upgrade is the runbook's command: it changes the values that it sets, and no other.
func TestAnUpgradeWithOtherValuesTakesEffectAndARollbackTakesItBack(t *testing.T) {
	settings := func() string {
		return must(t, "", "kubectl", "-n", ground.Namespace, "get", "configmap", "pillion", "-o", "jsonpath={.data.settings\\.yaml}")
	}
	n := newNamespace(t, asking("extra"), enforced())
	extra := inFile(t, "extra.yaml", manifest{name: "extra", spec: "\ninject: {metadata: {labels: {example.com/extra: \"1\"}}}"}.yaml())
	before := settings()
	does(t, upgrade+" --set replicas=3 --set coverage.every=0s --set-file templates.extra="+extra)
	rolledOut(t, ground.Namespace)
	replicas := must(t, "", "kubectl", "-n", ground.Namespace, "get", "deployment", "pillion", "-o", "jsonpath={.spec.replicas}")
	if got := settings(); !strings.Contains(got, "countEvery: 0s") || replicas != "3" {
		t.Errorf("after the upgrade the Deployment wants %s replicas, and Pillion's settings are %s", replicas, got)
	}
	n.previews(t, soon, newPod("probe", nil), func(pod *corev1.Pod) bool { return pod.Labels["example.com/extra"] == "1" })

	// The guard refuses the deletion of a template that a namespace names: see dropped_test.go.
	must(t, "", "kubectl", "annotate", "namespace", n.name, injectAnnotation+"-")
	must(t, "", "helm", "rollback", ground.Release, "-n", ground.Namespace)
	rolledOut(t, ground.Namespace)
	if got := settings(); got != before {
		t.Errorf("after the rollback Pillion's settings are\n%s\nwant\n%s", got, before)
	}
	eventually(t, soon, func() error { return n.isUnknown(t, "extra") })
	wantNoError(t, errorOf(publishedBundle(t)), "after the rollback:")
}

// clean drops what controllers, and replicas, write all the time.
func clean(objects string) string {
	var kept []string
	status := false // of an object of the list
	for line := range strings.Lines(objects) {
		if !strings.HasPrefix(line, "   ") {
			status = strings.HasPrefix(line, "  status:")
		}
		if !status && !strings.Contains(line, "resourceVersion:") && !strings.Contains(line, "lastUpdateTime:") && !strings.Contains(line, "lastTransitionTime:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// Nobody takes the labels off then. That harms nobody, and it can be done by hand.
func TestAReleaseWhosePodsDoNotRunIsRemovedWithoutWaiting(t *testing.T) {
	labels := newLabelled(t)
	kill(t)
	must(t, "", "helm", "uninstall", ground.Release, "-n", ground.Namespace)
	rolledOut(t, ground.Namespace)
	for _, n := range []*namespace{labels.set, labels.byHand, labels.required} {
		wantNoError(t, errorOf(n.create(t, newPod("free", nil))), "with labels and without Pillion:")
	}
	if out := must(t, "", "pillion", "unlabel", "--dry-run"); !strings.Contains(out, "namespace "+labels.set.name+": pillion.dev/injection\n") || strings.Contains(out, labels.byHand.name) {
		t.Errorf("pillion unlabel --dry-run says\n%s", out)
	}
	wantNoError(t, labels.left(t, true), "after pillion unlabel --dry-run:")
	must(t, "", "pillion", "unlabel")
	wantNoError(t, labels.left(t, false), "after pillion unlabel:")
	if out := must(t, "", "kubectl", "get", "sct", "-l", "app.kubernetes.io/instance="+ground.Release, "-o", "name"); out != "" {
		t.Errorf("helm uninstall leaves\n%s", out)
	}
	install(t)
}

// Where the namespace of the release takes no ConfigMap, the uninstall stops; what docs/how-to/switch-off.md
// names for that removes the release and its labels.
func TestAReleaseWhoseNamespaceTakesNoConfigMapIsRemovedWithoutHooks(t *testing.T) {
	labels := newLabelled(t)
	must(t, "", "kubectl", "-n", ground.Namespace, "create", "quota", "none", "--hard=count/configmaps=0")
	eventually(t, soon, func() error {
		return refusedWith(attempt(t, "", "kubectl", "-n", ground.Namespace, "create", "configmap", "one", "--dry-run=server"))
	})
	expectNoError(t, refusedWith(attempt(t, "", "helm", "uninstall", ground.Release, "-n", ground.Namespace)))
	does(t, "helm uninstall pillion -n pillion-system --no-hooks")
	rolledOut(t, ground.Namespace)
	does(t, "pillion unlabel --dry-run; pillion unlabel")
	wantNoError(t, labels.left(t, false))
	must(t, "", "kubectl", "-n", ground.Namespace, "delete", "quota", "none")
	install(t)
}

// An uninstall that is broken off leaves replicas that set no label.
func TestAfterABrokenOffUninstallARestartHasLabelsSetAgain(t *testing.T) {
	backToOne(t)
	const marker = "pillion-uninstall"
	must(t, "", "kubectl", "-n", ground.Namespace, "create", "configmap", marker)
	eventually(t, soon, func() error { return newNamespace(t, asking("fluent-bit"), nil).hasInjection(t, "") })
	must(t, "", "kubectl", "-n", ground.Namespace, "delete", "configmap", marker)
	n := newNamespace(t, asking("fluent-bit"), nil)
	expectNoError(t, n.hasInjection(t, ""))
	does(t, "kubectl -n pillion-system rollout restart deployment/pillion")
	scale(t, 1) // on a control plane, the restart
	eventually(t, soon, func() error { return n.hasInjection(t, "enforced") })
}

// The commands by which docs/how-to/switch-off.md switches everything off and on again.
const (
	off = "kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration pillion"
	on  = rollback
)

// A loaded namespace has pods created all the time.
type loaded struct {
	*namespace
	*podLoad
}

// loadedByRequired is one whose pods have to have the sidecar of a required template.
func loadedByRequired(t *testing.T) (manifest, loaded) {
	t.Helper()
	m, n := newRequired(t, nil)
	eventually(t, soon, func() error { return errors.Join(n.hasInjection(t, "enforced"), n.hasLabel(t, true)) })
	l := loaded{n, underLoad(t, n, m.name)}
	l.becomes(t, injected)
	return m, l
}

// Each command by which docs/how-to/switch-off.md and docs/troubleshoot/runbook.md let pods through, with a required
// template, and while pods are created all the time.
func TestEachCommandThatSwitchesPillionOffLetsPodsThroughUnderLoad(t *testing.T) {
	backToOne(t)
	n := newNamespace(t, asking("fluent-bit"), enforced())
	injects(t, n, "fluent-bit")
	strict := loaded{n, underLoad(t, n, "fluent-bit")}
	_, required := loadedByRequired(t)
	become := func(want string) {
		t.Helper()
		strict.becomes(t, want)
		required.becomes(t, want)
	}
	become(injected)

	kill(t)
	become(refused)
	does(t, "kubectl label namespace "+required.name+" pillion.dev/injection=disabled --overwrite")
	required.becomes(t, bare)
	strict.becomes(t, refused)
	does(t, off)
	become(bare)
	does(t, on)
	scale(t, 1)
	does(t, "kubectl label namespace "+required.name+" pillion.dev/injection-")
	become(injected)

	// Pillion may answer, and be wrong.
	strict.take()
	required.take()
	does(t, off)
	become(bare)
	for _, l := range []loaded{strict, required} {
		if c := l.counts(); c[refused] > 0 {
			t.Errorf("while Pillion answers, switching it off refuses pods of %s: %s", l.name, l.podLoad)
		}
	}
	does(t, on)
	become(injected)
	eventually(t, soon, func() error { return proven("1") })
}

// The same for a template that does not fit its pods, and for a policy that stays behind.
func TestEachCommandThatSwitchesARequiredTemplateOffLetsItsPodsThroughUnderLoad(t *testing.T) {
	m, required := loadedByRequired(t)
	validations := func(value string) {
		must(t, "", "kubectl", "patch", "sidecartemplate", m.name, "--type=merge", "-p", `{"spec":{"validations":`+value+`}}`)
	}
	suspend := "kubectl patch sidecartemplate " + m.name + ` --type=merge -p '{"spec":{"suspend":%t}}'`
	validations(`[{"name":"never","expression":"false","message":"no pod fits"}]`)
	required.becomes(t, refused)
	does(t, fmt.Sprintf(suspend, true))
	required.becomes(t, bare)
	validations("null")
	does(t, fmt.Sprintf(suspend, false))
	required.becomes(t, injected)

	does(t, "pillion policy "+m.name+" --cluster | kubectl apply -f -")
	removedAtTheEnd(t, "validatingadmissionpolicy,validatingadmissionpolicybinding", "required-"+m.name+".pillion.dev", "--ignore-not-found")
	does(t, off)
	required.becomes(t, refused)
	does(t, "kubectl delete validatingadmissionpolicybinding -l pillion.dev/required-template")
	required.becomes(t, bare)
	does(t, on)
	required.becomes(t, injected)
	eventually(t, soon, func() error { return proven("1") })
	// What the page and NOTES.txt name for policies that stay after the release.
	const kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy"
	does(t, "kubectl delete "+kinds+" -l pillion.dev/required-template")
	if left := must(t, "", "kubectl", "get", kinds, "-l", "pillion.dev/required-template", "-o", "name"); left != "" {
		t.Errorf("there still is %s", left)
	}
}
