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

// regarding returns the object of the event: the owner of the pod, if the API server has it, else the namespace.
// It returns false if the namespace does not exist.
func (r *Recorder) regarding(ctx context.Context, n note) (corev1.ObjectReference, bool, error) {
	if of, ok := r.owner(ctx, n.owner); ok {
		return of, true, nil
	}
	uid, ok, err := r.namespace(ctx, n.namespace)
	// The namespace is also the namespace of the reference: kubectl finds the events of an
	// object in the object's namespace, and a Namespace has none.
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: n.namespace, Namespace: n.namespace, UID: uid}, ok, err
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

// owner returns the topmost owner of a pod whose controller the review names: the Deployment of a ReplicaSet, the
// CronJob of a Job, else the controller itself. It returns false if the API server does not have the controller
// with this UID.
func (r *Recorder) owner(ctx context.Context, controller corev1.ObjectReference) (corev1.ObjectReference, bool) {
	kind, known := owner.Of(controller.APIVersion, controller.Kind)
	if !r.options.Owners || !known {
		return corev1.ObjectReference{}, false
	}
	object, err := r.options.Metadata.Resource(kind.GroupVersionResource).Namespace(controller.Namespace).Get(ctx, controller.Name, metav1.GetOptions{})
	if err != nil || object.UID != controller.UID {
		return corev1.ObjectReference{}, false
	}
	top := metav1.GetControllerOf(object)
	if top == nil {
		return controller, true
	}
	if _, known := owner.Of(top.APIVersion, top.Kind); !known { // of another project
		return controller, true
	}
	return corev1.ObjectReference{APIVersion: top.APIVersion, Kind: top.Kind, Name: top.Name, UID: top.UID, Namespace: controller.Namespace}, true
}
