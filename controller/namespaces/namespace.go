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
	// maxBytes is how many bytes of labels and annotations a namespace in the cache has. Of a larger one the
	// cache has a stub.
	maxBytes = 16 << 10
	// maxAskBytes is how long the inject annotation of a stub may be.
	maxAskBytes = 4 << 10
)

// namespace is what the cache has of a namespace: its metadata without managed fields.
type namespace struct {
	metav1.ObjectMeta
	// byHand has the keys of Pillion's labels that another field manager owns. It is nearly always nil.
	byHand []string
	// stub: the metadata are Pillion's own labels and what the namespace asks for.
	stub bool
}

// newNamespace returns what the cache has of a namespace.
func newNamespace(ns *metav1.PartialObjectMetadata) *namespace {
	n := newWhole(ns)
	if size(n.Labels)+size(n.Annotations) <= maxBytes {
		return n
	}
	n.stub = true
	injection, required, inject := v1alpha1.InjectionLabel, v1alpha1.RequiredLabel, v1alpha1.InjectKey
	maps.DeleteFunc(n.Labels, func(key, _ string) bool { return key != injection && key != required })
	maps.DeleteFunc(n.Annotations, func(key, value string) bool { return key != inject || len(value) > maxAskBytes })
	return n
}

// newWhole returns a namespace without managed fields, and without the annotation in which kubectl apply has the
// whole object once more.
func newWhole(ns *metav1.PartialObjectMetadata) *namespace {
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

// Namespace returns the namespace as templates see it. Nobody may change it.
func (n *namespace) Namespace() templates.Namespace {
	return templates.Namespace{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}
}

func (n *namespace) labelled() labels.Namespace {
	return labels.Namespace{Namespace: n.Namespace(), ResourceVersion: n.ResourceVersion, ByHand: n.byHand, Stub: n.stub}
}
