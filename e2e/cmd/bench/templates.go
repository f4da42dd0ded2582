package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// A further template is in force, and no measured pod gets its sidecar. Pillion looks at the labels of
// each called pod for one with a match; one without is for pods that name it.
const further = `---
apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: %[1]s}
spec:
  %[2]s
  parameters:
  - {name: logLevel, type: string, default: info}
  inject:
    spec:
      initContainers:
      - {name: %[1]s, restartPolicy: Always, image: "registry.example.com/further:1", args: ["--log-level=${params.logLevel}"]}
`

// addTemplates adds n further templates, one with and one without a match in turn, and returns when
// Pillion has them.
func addTemplates(ctx context.Context, cluster *measure.Cluster, n int) error {
	if n == 0 {
		return nil
	}
	var manifest strings.Builder
	for i := range n {
		name, who := fmt.Sprintf("further-%03d", i), "injectByDefault: false"
		if i%2 == 0 {
			who = "match: {namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [bench-pillion-skip, bench-pillion-fluent-bit]}]}, " +
				"podSelector: {matchLabels: {example.com/further: " + name + "}}}"
		}
		fmt.Fprintf(&manifest, further, name, who)
	}
	if _, _, err := ground.Exec(ctx, cluster, manifest.String(), "kubectl", "apply", "-f", "-"); err != nil {
		return fmt.Errorf("adding templates: %w", err)
	}
	replica, err := cluster.Pillion()
	if err != nil {
		return err
	}
	return measure.Within(ctx, soon, func() error {
		got, err := measure.Metric(ctx, replica, "pillion_template_info")
		if want := n + 1; err == nil && int(got) != want {
			err = fmt.Errorf("%v templates are in force, want %d", got, want)
		}
		return err
	})
}
