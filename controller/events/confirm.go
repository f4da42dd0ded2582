package events

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/injector/owner"
)

// regarding returns the object of the event: the topmost owner that reads confirm, else the
// namespace. It believes nothing that a review says. It returns false if the namespace does not
// exist.
func (r *Recorder) regarding(ctx context.Context, n note) (corev1.ObjectReference, bool, error) {
	uid, ok, err := r.namespace(ctx, n.namespace)
	if !ok || err != nil {
		return corev1.ObjectReference{}, false, err
	}
	if owner, ok := r.topmost(ctx, n.owner); ok {
		return owner, true, nil
	}
	// In the events of a namespace: kubectl shows an object's events by the namespace that
	// the object is in, and a namespace is in none.
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: n.namespace, Namespace: n.namespace, UID: uid}, true, nil
}

// namespace returns the UID of a namespace, false if there is no such namespace.
func (r *Recorder) namespace(ctx context.Context, name string) (types.UID, bool, error) {
	if uid, ok := r.options.Namespace(name); ok {
		return uid, true, nil
	}
	object, err := r.options.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return object.UID, true, nil
}

// topmost returns the owner of a pod's owner where there is one: the Deployment of a
// ReplicaSet, the CronJob of a Job. Where that is of a kind that Pillion does not read, as
// other projects' are, it returns the pod's owner. It returns false if the API server does not
// confirm the pod's owner.
func (r *Recorder) topmost(ctx context.Context, pods corev1.ObjectReference) (corev1.ObjectReference, bool) {
	controller, ok := r.read(ctx, pods)
	if !ok {
		return corev1.ObjectReference{}, false
	}
	if controller != nil {
		top := corev1.ObjectReference{APIVersion: controller.APIVersion, Kind: controller.Kind, Name: controller.Name, UID: controller.UID, Namespace: pods.Namespace}
		if _, ok := r.read(ctx, top); ok {
			return top, true
		}
	}
	return pods, true
}

// read reports whether an object of a kind of Kubernetes' own that makes pods exists with its UID,
// and returns its controller. An object that cannot be read is not confirmed.
func (r *Recorder) read(ctx context.Context, ref corev1.ObjectReference) (controller *metav1.OwnerReference, ok bool) {
	kind, known := owner.Of(ref.APIVersion, ref.Kind)
	if !r.options.Owners || !known {
		return nil, false
	}
	object, err := r.options.Metadata.Resource(kind.GroupVersionResource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil || object.UID != ref.UID {
		return nil, false
	}
	return metav1.GetControllerOf(object), true
}
