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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
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

// Clientset implements [Interface] for a cluster.
type Clientset struct {
	codec                                  runtime.ParameterCodec
	core, events, admission, authorization rest.Interface
}

// New returns the clients for a cluster. They share one connection and one rate limit.
func New(config *rest.Config) (*Clientset, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, admissionv1.AddToScheme, authorizationv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	shared := rest.CopyConfig(config)
	if shared.RateLimiter == nil && shared.QPS > 0 {
		if shared.Burst <= 0 {
			return nil, fmt.Errorf("making a client: the burst of requests is %d, where their rate is %v in a second", shared.Burst, shared.QPS)
		}
		shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(shared.QPS, shared.Burst)
	}
	if shared.ContentType == "" {
		shared.ContentType = runtime.ContentTypeProtobuf
		shared.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	shared.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	transport, err := rest.HTTPClientFor(shared)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	c := &Clientset{codec: runtime.NewParameterCodec(scheme)}
	for group, client := range map[schema.GroupVersion]*rest.Interface{
		corev1.SchemeGroupVersion: &c.core, eventsv1.SchemeGroupVersion: &c.events,
		admissionv1.SchemeGroupVersion: &c.admission, authorizationv1.SchemeGroupVersion: &c.authorization,
	} {
		own := rest.CopyConfig(shared)
		own.GroupVersion, own.APIPath = &group, "/apis"
		if group.Group == "" {
			own.APIPath = "/api"
		}
		if *client, err = rest.RESTClientForConfigAndClient(own, transport); err != nil {
			return nil, fmt.Errorf("making a client for %s: %w", group, err)
		}
	}
	return c, nil
}

// Secrets implements [Interface].
func (c *Clientset) Secrets(namespace string) Client[*corev1.Secret, *corev1.SecretList] {
	return gentype.NewClientWithList("secrets", c.core, c.codec, namespace, func() *corev1.Secret { return &corev1.Secret{} }, func() *corev1.SecretList { return &corev1.SecretList{} })
}

// ConfigMaps implements [Interface].
func (c *Clientset) ConfigMaps(namespace string) Client[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return gentype.NewClientWithList("configmaps", c.core, c.codec, namespace, func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, func() *corev1.ConfigMapList { return &corev1.ConfigMapList{} })
}

// Pods implements [Interface].
func (c *Clientset) Pods(namespace string) Client[*corev1.Pod, *corev1.PodList] {
	return gentype.NewClientWithList("pods", c.core, c.codec, namespace, func() *corev1.Pod { return &corev1.Pod{} }, func() *corev1.PodList { return &corev1.PodList{} })
}

// PodList implements [Interface].
func (c *Clientset) PodList(ctx context.Context, namespace string, opts metav1.ListOptions) (io.ReadCloser, error) {
	return c.core.Get().NamespaceIfScoped(namespace, namespace != "").Resource("pods").
		VersionedParams(&opts, c.codec).SetHeader("Accept", runtime.ContentTypeJSON).Stream(ctx)
}

// NamespaceList implements [Interface].
func (c *Clientset) NamespaceList(ctx context.Context, opts metav1.ListOptions) (io.ReadCloser, error) {
	return c.core.Get().Resource("namespaces").VersionedParams(&opts, c.codec).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Stream(ctx)
}

// PodProxy implements [Interface].
func (c *Clientset) PodProxy(ctx context.Context, namespace, pod string, port int, path string) ([]byte, error) {
	// Do would drop the body of an error.
	return c.core.Get().Namespace(namespace).Resource("pods").Name(fmt.Sprintf("%s:%d", pod, port)).SubResource("proxy").Suffix(path).DoRaw(ctx)
}

// ServerVersion reads the API server's /version, which is JSON.
func (c *Clientset) ServerVersion(ctx context.Context) ([]byte, error) {
	return c.core.Get().AbsPath("/version").SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
}

// Events implements [Interface].
func (c *Clientset) Events(namespace string) CreatePatcher[*eventsv1.Event] {
	return gentype.NewClient("events", c.events, c.codec, namespace, func() *eventsv1.Event { return &eventsv1.Event{} })
}

// MutatingWebhookConfigurations implements [Interface].
func (c *Clientset) MutatingWebhookConfigurations() Client[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList] {
	return gentype.NewClientWithList("mutatingwebhookconfigurations", c.admission, c.codec, "",
		func() *admissionv1.MutatingWebhookConfiguration { return &admissionv1.MutatingWebhookConfiguration{} },
		func() *admissionv1.MutatingWebhookConfigurationList {
			return &admissionv1.MutatingWebhookConfigurationList{}
		})
}

// ValidatingWebhookConfigurations implements [Interface].
func (c *Clientset) ValidatingWebhookConfigurations() Client[*admissionv1.ValidatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfigurationList] {
	return gentype.NewClientWithList("validatingwebhookconfigurations", c.admission, c.codec, "",
		func() *admissionv1.ValidatingWebhookConfiguration {
			return &admissionv1.ValidatingWebhookConfiguration{}
		},
		func() *admissionv1.ValidatingWebhookConfigurationList {
			return &admissionv1.ValidatingWebhookConfigurationList{}
		})
}

// SelfSubjectAccessReviews implements [Interface].
func (c *Clientset) SelfSubjectAccessReviews() Creator[*authorizationv1.SelfSubjectAccessReview] {
	return gentype.NewClient("selfsubjectaccessreviews", c.authorization, c.codec, "", func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} })
}
