package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// What `make up` does for as long as its ground stands is done here for the time of a test.
func TestOnAControlPlaneHelmTestProvesTheWayThroughTheAPIServer(t *testing.T) {
	plane, ok := shared.(*ground.ControlPlane)
	if !ok {
		t.Skip("a node runs the test's pod itself")
	}
	ctx, end := context.WithCancel(t.Context())
	var runner sync.WaitGroup
	runner.Go(func() {
		for ctx.Err() == nil {
			if err := plane.RunTests(ctx, ground.Namespace); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(runner.Wait)
	t.Cleanup(end)

	must(t, "", "helm", "test", ground.Release, "-n", ground.Namespace, "--timeout=30s")
	if left := must(t, "", "kubectl", "-n", ground.Namespace, "get", "pods", "-o", "name"); strings.Contains(left, "pillion-test") {
		t.Errorf("helm test leaves\n%s", left)
	}

	backToOne(t)
	if err := shared.Kill(ground.Namespace); err != nil {
		t.Fatal(err)
	}
	_, stderr, err := run(t, "", "helm", "test", ground.Release, "-n", ground.Namespace, "--timeout=30s")
	if err == nil || !strings.Contains(stderr, "failed") || strings.Contains(stderr, "timed out") {
		t.Errorf("helm test without Pillion says %q (%v), want that it failed", stderr, err)
	}
	if message := must(t, "", "kubectl", "-n", ground.Namespace, "get", "pod", "pillion-test", "-o", "jsonpath={.status.message}"); !strings.Contains(message, "calls Pillion and gets no answer") {
		t.Errorf("the failed test's message:\n%s", message)
	}
	must(t, "", "kubectl", "-n", ground.Namespace, "delete", "pod", "pillion-test")
}
