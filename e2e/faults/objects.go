package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Names of Pillion's, as the chart has them by default.
const (
	injectAnnotation = "pillion.dev/inject"
	statusAnnotation = "pillion.dev/status"
	injectionLabel   = "pillion.dev/injection"
	requiredLabel    = "pillion.dev/required"
	openValue        = "enabled"
	closedValue      = "enforced"
)

// The sidecars that pods are to get. One is a template of the library and so a part of the replicas'
// arguments. Of the other two, which are objects of the cluster, namespaces ask for the first, and the
// second selects a namespace. They have the names of their containers.
const (
	librarySidecar    = "fluent-bit"
	askedTemplate     = "faults-asked"
	selectingTemplate = "faults-selecting"
	canaryTemplate    = "faults-next" // of askedTemplate
)

// libraryVersion is the one version of the template of the library.
const libraryVersion = "library"

// asksAll is what namespaces ask for.
const asksAll = librarySidecar + "," + askedTemplate

// versionVariable is the variable of their containers that has the template's version.
const versionVariable = "VERSION"

var templateResource = schema.GroupVersionResource{Group: "pillion.dev", Version: "v1alpha1", Resource: "sidecartemplates"}

// templateOf is a template that injects a container in some version, with more fields of its spec.
func templateOf(name, container, version string, more ...string) string {
	return fmt.Sprintf(`apiVersion: pillion.dev/v1alpha1
kind: SidecarTemplate
metadata: {name: %s}
spec:
  %s
  inject:
    spec:
      initContainers:
      - name: %s
        restartPolicy: Always
        image: registry.example.com/side:1
        env: [{name: %s, value: %q}]
`, name, strings.Join(more, "\n  "), container, versionVariable, version)
}

// selects is what selectingTemplate selects.
const selects = "match: {namespaceSelector: {matchLabels: {example.com/faults: required}}}"

// firstVersion is the version of a template that an admin applies again.
const firstVersion = "v0"

// nextVersion is a version that no template had before.
func (r *run) nextVersion() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.edits++
	return fmt.Sprintf("v%d", r.edits)
}

// put writes a version of a template, with more fields of its spec, and notes it. A suspended template has
// a version without a name.
func (r *run) put(ctx context.Context, template, name string, more ...string) error {
	v := version{name: name, sent: time.Now()}
	if template == selectingTemplate {
		more = append(more, selects)
	}
	r.mu.Lock()
	i := len(r.log.versions[template])
	r.log.versions[template] = append(r.log.versions[template], v)
	r.mu.Unlock()
	if err := r.apply(ctx, templateOf(template, template, name, more...)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.versions[template][i].written = time.Now()
	return nil
}

// putTemplates writes both templates as they are at first.
func (r *run) putTemplates(ctx context.Context) error {
	return errors.Join(r.put(ctx, askedTemplate, firstVersion), r.put(ctx, selectingTemplate, firstVersion, required))
}

// Fields of a template's spec.
const (
	required = "required: true"
	suspend  = "suspend: true"
)

// putCanary gives half of the workloads a version of askedTemplate that refuses their pods.
func (r *run) putCanary(ctx context.Context, more ...string) error {
	more = append(more, "canary: {of: "+askedTemplate+", percent: 50}",
		`validations: [{name: wrong, expression: "has(pod.spec.nodeName)", message: "the canary refuses all pods"}]`)
	return r.apply(ctx, templateOf(canaryTemplate, askedTemplate, "canary", more...))
}

// apply applies a template on the server side.
func (r *run) apply(ctx context.Context, manifest string) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		return err
	}
	return r.again(ctx, func(ctx context.Context) error {
		_, err := r.dynamic.Resource(templateResource).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "faults", Force: true})
		return err
	})
}

// wish are the annotations and labels of a namespace of a kind. Pillion itself enforces a namespace
// that asks; by hand, it is enforced from its first write on.
func wish(kind namespaceKind, asks string, byHand bool) (annotations, labels map[string]string) {
	asking := map[string]string{injectAnnotation: asks}
	switch {
	case kind == neverAsked:
		return nil, nil
	case kind == selected:
		return nil, map[string]string{"example.com/faults": "required"}
	case kind == enabled:
		return asking, map[string]string{injectionLabel: openValue}
	case byHand:
		return asking, map[string]string{injectionLabel: closedValue}
	}
	return asking, nil
}

// makeNamespace makes a namespace of a kind, and returns when pods can be created in it.
func (r *run) makeNamespace(ctx context.Context, name string, kind namespaceKind) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Annotations, object.Labels = wish(kind, r.asks, r.byHand)
	return r.again(ctx, func(ctx context.Context) error {
		_, err := r.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		ns, err := r.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil && ns.DeletionTimestamp != nil {
			err = fmt.Errorf("namespace %s is being deleted", name)
		}
		if err != nil {
			return err
		}
		_, err = r.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
