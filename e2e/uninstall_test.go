package e2e

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

func TestAfterUninstallNothingBlocksAPodAndAReinstallWorks(t *testing.T) {
	strict := newNamespace(t, asking("fluent-bit"), enforced())
	injects(t, strict, "fluent-bit")
	labels := newLabelled(t)
	load := underLoad(t, labels.set, "fluent-bit") // Pillion takes this label off first, so nothing is held up
	must(t, "", "helm", "uninstall", ground.Release, "-n", ground.Namespace)
	rolledOut(t, ground.Namespace)
	load.becomes(t, bare)
	if c := load.counts(); c[refused] > 0 || c[injected] == 0 {
		t.Errorf("pods while the release went: %s, want none refused", load)
	}
	wantNoError(t, labels.left(t, false), "after the uninstall:")
	isUnregistered(t)
	left := must(t, "", "kubectl", "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,clusterroles,clusterrolebindings,roles,rolebindings,deployments,services,serviceaccounts,configmaps,poddisruptionbudgets",
		"-A", "-l", "app.kubernetes.io/instance="+ground.Release, "-o", "name")
	if left != "" {
		t.Errorf("helm uninstall leaves\n%s", left)
	}
	eventually(t, soon, func() error { return errorOf(strict.preview(t, newPod("free", nil))) })
	if got := containerNames(strict.mustCreate(t, newPod("free", nil))); got != "app" {
		t.Errorf("containers %s without Pillion", got)
	}

	does(t, "kubectl delete namespace pillion-system-proof")
	install(t)
	injects(t, strict, "fluent-bit")
	eventually(t, soon, func() error { return proven("1") })
}

// isUnregistered fails the test unless API servers have no mutating webhook of Pillion.
func isUnregistered(t *testing.T) {
	t.Helper()
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("looking for the webhook configuration: %v, want that it is gone", err)
	}
}

// labelled are namespaces with labels of each origin.
type labelled struct{ set, byHand, required *namespace }

func newLabelled(t *testing.T) labelled {
	t.Helper()
	_, required := newRequired(t, nil)
	l := labelled{newNamespace(t, asking("fluent-bit"), nil), newNamespace(t, asking("fluent-bit"), enforced()), required}
	eventually(t, soon, func() error { return l.set.hasInjection(t, "enforced") })
	eventually(t, soon, func() error { return required.hasLabel(t, true) })
	return l
}

// left looks whether the labels that Pillion set are there. One that was set by hand is.
func (l labelled) left(t *testing.T, want bool) error {
	t.Helper()
	if got := l.byHand.labels(t)[injectionLabel]; got != "enforced" {
		return fmt.Errorf("the label that was set by hand is %q", got)
	}
	if got := l.set.labels(t)[injectionLabel]; (got != "") != want {
		return fmt.Errorf("the label that Pillion set is %q, want that it is there: %t", got, want)
	}
	return l.required.hasLabel(t, want)
}
