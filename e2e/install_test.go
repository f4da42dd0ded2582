package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// another installs the chart as another release, with arguments of helm. It goes with the test.
func another(t *testing.T, release, home string, args ...string) {
	t.Helper()
	must(t, "", "helm", append([]string{"install", release, checkout.Chart(), "-n", home}, args...)...)
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := ground.Run(ctx, shared, "helm", "uninstall", release, "-n", home)
		if err = errors.Join(err, shared.Rollout(ctx, home)); err != nil {
			t.Error(err)
		}
	})
}

// Not in parallel: it installs a second Pillion that sees every pod.
func TestASecondInstallWithAnotherPrefixLivesBesideTheFirst(t *testing.T) {
	const prefix = "side.example.com"
	own := manifest{name: "own", spec: sidecarSpec}
	file := inFile(t, "own.yaml", strings.ReplaceAll(own.yaml(), "pillion.dev/v1alpha1", prefix+"/v1alpha1"))
	home := newNamespace(t, nil, nil).name
	t.Cleanup(func() { remove(t, "crd/sidecartemplates."+prefix) })
	another(t, "second", home, "--set", "annotationPrefix="+prefix, "--set", "webhook.name=second", "--set", "nameOverride=cars", "--set", "fullnameOverride=motorbike", "--set", "commonLabels.team=platform", "--set-file", "templates.own="+file,
		"--set", "templates.audit.required=true", "--set", "templates.audit.match.namespaceSelector.matchLabels.team="+home, "--set", "templates.audit.inject.metadata.labels.audited=yes")
	rolledOut(t, home)
	n := newNamespace(t, map[string]string{injectAnnotation: "fluent-bit", prefix + "/inject": own.name, own.name + "." + prefix + "/log-level": "debug"}, nil)
	n.previews(t, soon, newPod("web", nil), func(pod *corev1.Pod) bool {
		c := sidecar(pod, own.name) // with a parameter under the other prefix
		return c != nil && sidecar(pod, "fluent-bit") != nil && environment(c, "LOG_LEVEL") == "debug"
	})
	// Each keeps its own label, and neither takes the other's off.
	for range 2 {
		eventually(t, soon, func() error {
			if labels := n.labels(t); labels[injectionLabel] != "enforced" || labels[prefix+"/injection"] != "enforced" {
				return fmt.Errorf("the labels of a namespace that asks both are %v", labels)
			}
			return nil
		})
		must(t, "", "kubectl", "label", "namespace", n.name, "touched="+unique("x"), "--overwrite") // both look at it again
	}
	// The second one's leaves the first one's namespaces alone.
	audited := newNamespace(t, nil, map[string]string{"team": home})
	_, required := newRequired(t, nil)
	eventually(t, soon, func() error {
		labels, others := audited.labels(t), required.labels(t)
		if labels[prefix+"/required"] != "true" || labels[requiredLabel] != "" || others[requiredLabel] != "true" || others[prefix+"/required"] != "" {
			return fmt.Errorf("the namespaces have the labels %v and %v", labels, others)
		}
		return nil
	})
	for _, name := range []string{configuration, "second"} {
		c, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || len(c.Webhooks) == 0 || bytes.Equal(c.Webhooks[0].ClientConfig.CABundle, nil) {
			t.Errorf("configuration %s: %v", name, err)
		}
	}
}

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
	kill(t)
	_, stderr, err := run(t, "", "helm", "test", ground.Release, "-n", ground.Namespace, "--timeout=30s")
	if err == nil || !strings.Contains(stderr, "failed") || strings.Contains(stderr, "timed out") {
		t.Errorf("helm test without Pillion says %q (%v), want that it failed", stderr, err)
	}
	if message := must(t, "", "kubectl", "-n", ground.Namespace, "get", "pod", "pillion-test", "-o", "jsonpath={.status.message}"); !strings.Contains(message, "calls Pillion and gets no answer") {
		t.Errorf("the failed test's message:\n%s", message)
	}
	must(t, "", "kubectl", "-n", ground.Namespace, "delete", "pod", "pillion-test")
}
