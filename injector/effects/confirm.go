package effects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// confirmation finds the object of an event. It believes nothing that a review says.
type confirmation struct {
	client metadata.Interface
	// cached returns the UID of a namespace in the cache of namespaces.
	cached func(namespace string) (types.UID, bool)
	// owners allows to read the owners of pods.
	owners bool
}

// regarding returns the object of the event: the owner if a read confirms it, else the
// namespace. It returns false if the namespace does not exist.
func (c confirmation) regarding(ctx context.Context, n note) (corev1.ObjectReference, bool, error) {
	uid, ok, err := c.namespace(ctx, n.namespace)
	if !ok || err != nil {
		return corev1.ObjectReference{}, false, err
	}
	if c.owner(ctx, n.owner) {
		return n.owner, true, nil
	}
	// In the events of a namespace: kubectl shows an object's events by the namespace that
	// the object is in, and a namespace is in none.
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: n.namespace, Namespace: n.namespace, UID: uid}, true, nil
}

// namespace returns the UID of a namespace, false if there is no such namespace.
func (c confirmation) namespace(ctx context.Context, name string) (types.UID, bool, error) {
	if uid, ok := c.cached(name); ok {
		return uid, true, nil
	}
	object, err := c.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return object.UID, true, nil
}

// owner reports whether the owner exists, with its UID, in the namespace of the pod.
func (c confirmation) owner(ctx context.Context, ref corev1.ObjectReference) bool {
	resource, known := owners[ref.GroupVersionKind()]
	if !c.owners || !known {
		return false
	}
	object, err := c.client.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	// An owner that cannot be read is not confirmed: the event is on the namespace.
	return err == nil && object.UID == ref.UID
}
