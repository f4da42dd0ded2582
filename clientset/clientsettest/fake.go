// Package clientsettest makes Pillion's clients of client-go's clientset, for tests with a
// fake one.
package clientsettest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pillion-dev/pillion/clientset"
)

// Of returns the clients of a clientset.
func Of(all kubernetes.Interface) clientset.Interface { return of{all} }

type of struct{ all kubernetes.Interface }

// IsWatchListSemanticsUnSupported says to informers what the clientset says: a fake one
// knows no streamed lists.
func (o of) IsWatchListSemanticsUnSupported() bool {
	says, ok := o.all.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && says.IsWatchListSemanticsUnSupported()
}

// Secrets implements [clientset.Interface].
func (o of) Secrets(namespace string) clientset.Client[*corev1.Secret, *corev1.SecretList] {
	return o.all.CoreV1().Secrets(namespace)
}

// ConfigMaps implements [clientset.Interface].
func (o of) ConfigMaps(namespace string) clientset.Client[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return o.all.CoreV1().ConfigMaps(namespace)
}

// Pods implements [clientset.Interface].
func (o of) Pods(namespace string) clientset.Client[*corev1.Pod, *corev1.PodList] {
	return o.all.CoreV1().Pods(namespace)
}

// PodList implements [clientset.Interface]. The fake clientset knows no pages.
func (o of) PodList(ctx context.Context, namespace string, opts metav1.ListOptions) (io.ReadCloser, error) {
	list, err := o.all.CoreV1().Pods(namespace).List(ctx, opts)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(list)
	return io.NopCloser(bytes.NewReader(text)), err
}

// NamespaceList implements [clientset.Interface]. The fake clientset knows no pages.
func (o of) NamespaceList(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error) {
	list, err := o.all.CoreV1().Namespaces().List(ctx, opts)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(list)
	return io.NopCloser(bytes.NewReader(text)), err
}

// PodProxy implements [clientset.Interface].
func (o of) PodProxy(_ context.Context, namespace, pod string, port int, path string) ([]byte, error) {
	return nil, fmt.Errorf("a fake cluster has no pod %s/%s to read %d%s from", namespace, pod, port, path)
}

// Events implements [clientset.Interface].
func (o of) Events(namespace string) clientset.CreatePatcher[*eventsv1.Event] {
	return o.all.EventsV1().Events(namespace)
}

// MutatingWebhookConfigurations implements [clientset.Interface].
func (o of) MutatingWebhookConfigurations() clientset.Client[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList] {
	return o.all.AdmissionregistrationV1().MutatingWebhookConfigurations()
}

// ValidatingWebhookConfigurations implements [clientset.Interface].
func (o of) ValidatingWebhookConfigurations() clientset.Client[*admissionv1.ValidatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfigurationList] {
	return o.all.AdmissionregistrationV1().ValidatingWebhookConfigurations()
}

// SelfSubjectAccessReviews implements [clientset.Interface].
func (o of) SelfSubjectAccessReviews() clientset.Creator[*authorizationv1.SelfSubjectAccessReview] {
	return o.all.AuthorizationV1().SelfSubjectAccessReviews()
}
