package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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
	another(t, "second", home, "--set", "annotationPrefix="+prefix, "--set", "enforcement=Asked", "--set", "webhook.name=second", "--set", "nameOverride=cars", "--set", "fullnameOverride=motorbike", "--set", "commonLabels.team=platform", "--set-file", "templates.own="+file,
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
