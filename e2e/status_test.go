package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// withoutValidating deletes the chart's ValidatingWebhookConfiguration. The returned
// function makes it again, and waits until Pillion has published its CA in it; so does the
// test's end.
func withoutValidating(t *testing.T) (again func()) {
	t.Helper()
	ctx, api := context.Background(), client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	before, err := api.Get(ctx, configuration, metav1.GetOptions{})
	expectNoError(t, err)
	before.ResourceVersion, before.UID = "", ""
	for i := range before.Webhooks {
		before.Webhooks[i].ClientConfig.CABundle = nil
	}
	again = sync.OnceFunc(func() {
		if _, err := api.Create(ctx, before, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, soon, func() error {
			now, err := api.Get(ctx, configuration, metav1.GetOptions{})
			if err == nil && len(now.Webhooks[0].ClientConfig.CABundle) == 0 {
				err = errors.New("no CA is published in the ValidatingWebhookConfiguration that was made again")
			}
			return err
		})
	})
	t.Cleanup(again)
	expectNoError(t, api.Delete(ctx, configuration, metav1.DeleteOptions{}))
	return again
}

// published waits until the replica's metrics say whether the chart's
// ValidatingWebhookConfiguration verifies its certificate.
func published(t *testing.T, r ground.Replica, want string) {
	t.Helper()
	eventually(t, soon, func() error {
		return metric(r, "pillion_certificate_published{", `configuration="`+configuration+`"`, `kind="ValidatingWebhookConfiguration"`, "} "+want)
	})
}

// Every replica sees the same: if all left the Service, enforced namespaces would be
// locked out by the loss of an object that they have no need of.
func TestADeletedConfigurationCostsNoPodThatAnotherOneBrings(t *testing.T) {
	strict := newNamespace(t, asking("fluent-bit"), enforced())
	injects(t, strict, "fluent-bit")
	again := withoutValidating(t)
	for _, r := range shared.Replicas(ground.Namespace) {
		published(t, r, "0")
	}
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(200 * time.Millisecond) {
		for _, r := range shared.Replicas(ground.Namespace) {
			if said, err := readyz(r); err != nil || said != "ok\n" {
				t.Fatalf("without the ValidatingWebhookConfiguration /readyz says %q (%v)", said, err)
			}
		}
		pod, err := strict.preview(t, newPod("probe", nil))
		if err != nil || sidecar(pod, "fluent-bit") == nil {
			t.Fatalf("a pod of an enforced namespace: %v", err)
		}
	}
	again()
	for _, r := range shared.Replicas(ground.Namespace) {
		published(t, r, "1")
	}
}

// Through the API server, as an admin asks: check finds a sound installation, and status says why a
// replica is not ready.
func TestOnANodeCheckAndStatusAskTheReplicas(t *testing.T) {
	backToOne(t)
	scale(t, 1)
	eventually(t, running, func() error {
		out, stderr, err := run(t, "", "pillion", "check")
		if err == nil && (!strings.Contains(out, "The installation is sound: ") || !strings.Contains(out, "warning deployment: Deployment pillion has one replica") || !strings.Contains(out, " 1 warning, 0 failed, 0 skipped.")) {
			err = errors.New("it is not as it should be")
		}
		if err != nil {
			return fmt.Errorf("%w\n%s%s", err, out, stderr)
		}
		return nil
	})
	status := func(want ...string) error {
		out, stderr, err := run(t, "", "pillion", "status")
		for _, w := range want {
			if !strings.Contains(out, w) {
				return fmt.Errorf("the output lacks %q (%v):\n%s%s", w, err, out, stderr)
			}
		}
		return err
	}
	eventually(t, soon, func() error { return status("1 of 1 replicas") })

	again := withoutValidating(t)
	must(t, "", "kubectl", "-n", ground.Namespace, "scale", "deployment/pillion", "--replicas=2")
	eventually(t, running, func() error {
		err := status("not ready: pillion-", "certificates: validatingwebhookconfiguration "+configuration+": not found")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			return fmt.Errorf("got %w, want exit code 1", err)
		}
		return nil
	})
	again()
	eventually(t, running, func() error { return status("2 of 2 replicas") })
}
