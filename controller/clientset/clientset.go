package clientset

import (
	"context"
	"fmt"
	"io"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Client reads and writes the objects of one resource.
type Client[T, L runtime.Object] interface {
	Creator[T]
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// Creator creates objects of one resource.
type Creator[T runtime.Object] interface {
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
}

// CreatePatcher creates and patches objects of one resource.
type CreatePatcher[T runtime.Object] interface {
	Creator[T]
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// Interface has the clients.
type Interface interface {
	Secrets(namespace string) Client[*corev1.Secret, *corev1.SecretList]
	ConfigMaps(namespace string) Client[*corev1.ConfigMap, *corev1.ConfigMapList]
	Pods(namespace string) Client[*corev1.Pod, *corev1.PodList]
	// PodList answers one list request for pods as JSON, of a namespace or of all for "".
	// The caller closes the body.
	PodList(ctx context.Context, namespace string, opts metav1.ListOptions) (io.ReadCloser, error)
	// NamespaceList answers one list request for the metadata of namespaces as JSON, a
	// PartialObjectMetadataList. The caller closes the body.
	NamespaceList(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error)
	// PodProxy reads a path from a port of a pod through the API server. It may return
	// a body together with an error.
	PodProxy(ctx context.Context, namespace, pod string, port int, path string) ([]byte, error)
	Events(namespace string) CreatePatcher[*eventsv1.Event]
	MutatingWebhookConfigurations() Client[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList]
	ValidatingWebhookConfigurations() Client[*admissionv1.ValidatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfigurationList]
	SelfSubjectAccessReviews() Creator[*authorizationv1.SelfSubjectAccessReview]
}

// Clientset implements [Interface] for a cluster, with client-go's typed clients.
type Clientset struct{ all kubernetes.Interface }

// New returns the clients for a cluster. They share one connection and one rate limit.
func New(config *rest.Config) (*Clientset, error) {
	own := rest.CopyConfig(config)
	if own.ContentType == "" {
		own.ContentType = runtime.ContentTypeProtobuf
		own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	all, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return Of(all), nil
}

// Of returns the clients of a clientset of client-go.
func Of(all kubernetes.Interface) *Clientset { return &Clientset{all} }

// IsWatchListSemanticsUnSupported says to informers what the clientset says: a fake one
// knows no streamed lists.
func (c *Clientset) IsWatchListSemanticsUnSupported() bool {
	says, ok := c.all.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && says.IsWatchListSemanticsUnSupported()
}

// Secrets implements [Interface].
func (c *Clientset) Secrets(namespace string) Client[*corev1.Secret, *corev1.SecretList] {
	return c.all.CoreV1().Secrets(namespace)
}

// ConfigMaps implements [Interface].
func (c *Clientset) ConfigMaps(namespace string) Client[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return c.all.CoreV1().ConfigMaps(namespace)
}

// Pods implements [Interface].
func (c *Clientset) Pods(namespace string) Client[*corev1.Pod, *corev1.PodList] {
	return c.all.CoreV1().Pods(namespace)
}

// PodList implements [Interface].
func (c *Clientset) PodList(ctx context.Context, namespace string, opts metav1.ListOptions) (io.ReadCloser, error) {
	return c.all.CoreV1().RESTClient().Get().NamespaceIfScoped(namespace, namespace != "").Resource("pods").
		VersionedParams(&opts, scheme.ParameterCodec).SetHeader("Accept", runtime.ContentTypeJSON).Stream(ctx)
}

// NamespaceList implements [Interface].
func (c *Clientset) NamespaceList(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error) {
	return c.all.CoreV1().RESTClient().Get().Resource("namespaces").VersionedParams(&opts, scheme.ParameterCodec).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Stream(ctx)
}

// PodProxy implements [Interface].
func (c *Clientset) PodProxy(ctx context.Context, namespace, pod string, port int, path string) ([]byte, error) {
	// Do would drop the body of an error.
	return c.all.CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").Name(fmt.Sprintf("%s:%d", pod, port)).SubResource("proxy").Suffix(path).DoRaw(ctx)
}

// ServerVersion reads the API server's /version, which is JSON.
func (c *Clientset) ServerVersion(ctx context.Context) ([]byte, error) {
	return c.all.CoreV1().RESTClient().Get().AbsPath("/version").SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
}

// Events implements [Interface].
func (c *Clientset) Events(namespace string) CreatePatcher[*eventsv1.Event] {
	return c.all.EventsV1().Events(namespace)
}

// MutatingWebhookConfigurations implements [Interface].
func (c *Clientset) MutatingWebhookConfigurations() Client[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList] {
	return c.all.AdmissionregistrationV1().MutatingWebhookConfigurations()
}

// ValidatingWebhookConfigurations implements [Interface].
func (c *Clientset) ValidatingWebhookConfigurations() Client[*admissionv1.ValidatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfigurationList] {
	return c.all.AdmissionregistrationV1().ValidatingWebhookConfigurations()
}

// SelfSubjectAccessReviews implements [Interface].
func (c *Clientset) SelfSubjectAccessReviews() Creator[*authorizationv1.SelfSubjectAccessReview] {
	return c.all.AuthorizationV1().SelfSubjectAccessReviews()
}
