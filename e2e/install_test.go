package e2e

import (
	"context"
	"errors"
	"testing"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// uninstalled removes the release that all tests share, if it is there.
func uninstalled(ctx context.Context) error {
	_, err := ground.Run(ctx, shared, "helm", "uninstall", ground.Release, "-n", ground.Namespace, "--ignore-not-found")
	return errors.Join(err, shared.Rollout(ctx, ground.Namespace))
}

// reinstalledAtTheEnd brings the release back when the test ends.
func reinstalledAtTheEnd(t *testing.T) {
	t.Helper()
	atTheEnd(t, func(ctx context.Context) error {
		return errors.Join(uninstalled(ctx), ground.Install(ctx, shared, checkout, installed...))
	})
}

// instead takes the release that all tests share away, and brings it back when the test ends. Meanwhile the test
// installs Pillion otherwise. Such a test is not parallel.
func instead(t *testing.T, args ...string) {
	t.Helper()
	expectNoError(t, uninstalled(t.Context()))
	reinstalledAtTheEnd(t)
	if len(args) > 0 {
		must(t, "", "helm", append([]string{"install", ground.Release, checkout.Chart(), "-n", ground.Namespace}, args...)...)
	}
}

// There is one Pillion in a cluster. Helm refuses a second release before it changes anything.
func TestASecondReleaseIsRefused(t *testing.T) {
	t.Parallel()
	home := newNamespace(t, nil, nil).name
	err := attempt(t, "", "helm", "install", "second", checkout.Chart(), "-n", home, "--set", "webhook.name=second", "--set", "fullnameOverride=second")
	wantNoError(t, refusedWith(err, "invalid ownership metadata"))
	if out := must(t, "", "kubectl", "get", "all,configmaps", "-n", home, "-l", "app.kubernetes.io/name=pillion", "-o", "name"); out != "" {
		t.Errorf("it leaves\n%s", out)
	}
}
