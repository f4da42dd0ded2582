package namespaces

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/v1alpha1"
)

const (
	// maxBytes bounds the labels and annotations of a cached namespace. For a larger one, the cache has a stub, and
	// the namespace is read live.
	maxBytes = 16 << 10
	// maxAskBytes bounds the inject annotation of a stub.
	maxAskBytes = 4 << 10
)

// namespace is the metadata of a namespace without managed fields.
type namespace struct {
	metav1.ObjectMeta
	// byHand has the keys of Pillion's labels that another field manager owns. It is nearly always nil.
	byHand []string
	// stub means that the metadata are only Pillion's labels and the inject annotation.
	stub bool
}

// newNamespace returns the cached form of a namespace.
func newNamespace(ns *metav1.PartialObjectMetadata) *namespace {
	n := newFullNamespace(ns)
	if size(n.Labels)+size(n.Annotations) <= maxBytes {
		return n
	}
	n.stub = true
	injection, required, inject := v1alpha1.InjectionLabel, v1alpha1.RequiredLabel, v1alpha1.InjectKey
	maps.DeleteFunc(n.Labels, func(key, _ string) bool { return key != injection && key != required })
	maps.DeleteFunc(n.Annotations, func(key, value string) bool { return key != inject || len(value) > maxAskBytes })
	return n
}

// newFullNamespace returns a namespace without managed fields, and without kubectl's annotation with the last applied
// object.
func newFullNamespace(ns *metav1.PartialObjectMetadata) *namespace {
	n := &namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: ns.Name, UID: ns.UID, ResourceVersion: ns.ResourceVersion, DeletionTimestamp: ns.DeletionTimestamp,
			Labels: maps.Clone(ns.Labels), Annotations: maps.Clone(ns.Annotations),
		},
		byHand: labels.ByHand(ns, []string{v1alpha1.InjectionLabel}),
	}
	delete(n.Annotations, corev1.LastAppliedConfigAnnotation)
	return n
}

func size(m map[string]string) int {
	n := 0
	for key, value := range m {
		n += len(key) + len(value)
	}
	return n
}

// Namespace returns the namespace as templates see it. The caller must not change it.
func (n *namespace) Namespace() templates.Namespace {
	return templates.Namespace{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}
}

func (n *namespace) withOwners() labels.Namespace {
	return labels.Namespace{Namespace: n.Namespace(), ResourceVersion: n.ResourceVersion, ByHand: n.byHand, Stub: n.stub}
}
