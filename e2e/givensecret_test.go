package e2e

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
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

	// Deleted, it is Pillion's problem by name; made again, it is filled by the same replica.
	expectNoError(t, secrets.Delete(t.Context(), caSecret, metav1.DeleteOptions{}))
	replica := shared.Replicas(home)[0]
	command := fmt.Sprintf("kubectl -n %s create secret generic %s", home, caSecret)
	eventually(t, soon, func() error {
		return logged(replica, command)
	})
	if said, err := readyz(replica); err != nil || said != "ok\n" {
		t.Errorf("without the Secret /readyz says %q, %v", said, err)
	}
	must(t, "", "kubectl", "-n", home, "create", "secret", "generic", caSecret)
	eventually(t, soon, func() error {
		if len(secret().Data) == 0 {
			return errors.New("the Secret that was made again is empty")
		}
		return nil
	})
	foreign := secret()

	// This one Helm did not make: it is used as it is, and so is one that Pillion made.
	helm("upgrade", "rbac.createSecrets=true")
	helm("upgrade", "rbac.createSecrets=false")
	got := secret()
	if got.UID != foreign.UID || got.Annotations["meta.helm.sh/release-name"] != "" {
		t.Errorf("Helm took over or replaced the Secret:\n%s", pretty(got.ObjectMeta))
	}

	// The chart's own stays when the release goes, and the next install finds it.
	expectNoError(t, secrets.Delete(t.Context(), caSecret, metav1.DeleteOptions{}))
	helm("upgrade", "rbac.createSecrets=false", "podLabels.a=e")
	eventually(t, soon, func() error {
		if len(secret().Data) == 0 {
			return errors.New("the Secret that an upgrade made again is empty")
		}
		return nil
	})
	must(t, "", "helm", "uninstall", ground.Release, "-n", home)
	rolledOut(t, home)
	kept := secret()
	helm("install", "rbac.createSecrets=false")
	keeps("another install", kept)
}

// logged is nil if the replica's log has the text.
func logged(r ground.Replica, text string) error {
	log, err := os.ReadFile(r.Log)
	if err == nil && !strings.Contains(string(log), text) {
		err = fmt.Errorf("the log of %s does not say %q", r.Name, text)
	}
	return err
}
