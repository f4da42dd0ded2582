package faults

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// The namespaces of the load.
const (
	enforcedNamespace  = "faults-enforced"
	requestedNamespace = "faults-requested"
	neverNamespace     = "faults-never"
)

// Names of Pillion's, as the chart has them by default.
const (
	injectAnnotation = "pillion.dev/inject"
	statusAnnotation = "pillion.dev/status"
	injectionLabel   = "pillion.dev/injection"
	openValue        = "enabled"
	closedValue      = "enforced"
)

// The sidecars that pods are to get: one is a template of the library and so a part of the
// replicas' arguments, one is an object of the cluster.
const (
	librarySidecar = "fluent-bit"
	clusterSidecar = "faults-side"
)

// asks is what the namespaces ask for.
const asks = librarySidecar + "," + clusterSidecar

// clusterTemplate is the object.
const clusterTemplate = `apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: ` + clusterSidecar + `}
spec:
  parameters:
  - {name: logLevel, type: string, default: info}
  inject:
    spec:
      initContainers:
      - name: ` + clusterSidecar + `
        restartPolicy: Always
        image: registry.example.com/side:1
        env: [{name: LOG_LEVEL, value: "${params.logLevel}"}]
`

// wish are the annotations and labels of a namespace of that kind. Pillion itself enforces what
// asks, once it has proven itself. One that is to fail open says so by hand. By hand also says
// that the namespace is to fail closed from its first write on.
func wish(kind Kind, byHand bool) (annotations, labels map[string]string) {
	annotations = map[string]string{injectAnnotation: asks}
	switch {
	case kind == NeverAsked:
		return nil, nil
	case kind == Requested:
		return annotations, map[string]string{injectionLabel: openValue}
	case byHand:
		return annotations, map[string]string{injectionLabel: closedValue}
	}
	return annotations, nil
}

// controllersLimit is how long the controller manager may take to see a new namespace: after
// the API server was away it tries again every 30 s.
const controllersLimit = 2 * time.Minute

// makeNamespace makes a namespace of that kind, and returns when pods can be created in it.
func makeNamespace(ctx context.Context, client kubernetes.Interface, name string, kind Kind) error {
	annotations, labels := wish(kind, false)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, Labels: labels}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making namespace %s: %w", name, err)
	}
	return measure.Within(ctx, controllersLimit, func() error {
		_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
