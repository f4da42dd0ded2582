package e2e

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// With rbac.createSecrets=false the chart makes the CA's Secret, and Helm never touches what
// Pillion wrote into it. Not in parallel: it takes the place of the shared release.
func TestTheChartMakesTheSecretOfTheCAAndLeavesItsData(t *testing.T) {
	const home = ground.Namespace
	instead(t)
	helm := func(verb string, sets ...string) {
		t.Helper()
		must(t, "", "helm", append([]string{verb, ground.Release, checkout.Chart(), "-n", home}, flags(append([]string{"shutdown.delaySeconds=0", "replicas=1", "library={fluent-bit}"}, sets...))...)...)
	}
	secrets := client.CoreV1().Secrets(home)
	secret := func() *corev1.Secret {
		t.Helper()
		s, err := secrets.Get(t.Context(), caSecret, metav1.GetOptions{})
		expectNoError(t, err)
		return s
	}
	keeps := func(what string, want *corev1.Secret) {
		t.Helper()
		if got := secret(); got.UID != want.UID || !reflect.DeepEqual(got.Data, want.Data) || len(got.Data) == 0 {
			t.Errorf("%s: the Secret was changed", what)
		}
	}

	// The chart makes it, Pillion fills it.
	expectNoError(t, secrets.Delete(t.Context(), caSecret, metav1.DeleteOptions{}))
	helm("install", "rbac.createSecrets=false")
	if made := secret(); len(made.Data) != 0 || made.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Fatalf("the chart's Secret is\n%s", pretty(made))
	}
	rolledOut(t, home)
	filled := secret()
	if len(filled.Data) == 0 {
		t.Fatal("Pillion is ready, and the Secret is empty")
	}
	if isAllowed(t, client, right{verb: "create", resource: "secrets", namespace: home}, system(home, "pillion"), "system:serviceaccounts") {
		t.Error("Pillion may create Secrets")
	}

	// Helm leaves its data, however the release is changed.
	helm("upgrade", "rbac.createSecrets=false", "podLabels.a=b")
	keeps("an upgrade", filled)
	rolledOut(t, home) // on a node an upgrade replaces the pod

	must(t, "", "helm", "uninstall", ground.Release, "-n", home)
	rolledOut(t, home)
	helm("install", "rbac.createSecrets=false")
	keeps("another install", filled)
}
