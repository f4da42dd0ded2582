package clientset

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/rights"
)

// New returns the clients for a cluster. They share one connection and one rate limit, and speak
// protobuf unless the configuration says otherwise.
func New(config *rest.Config) (*kubernetes.Clientset, error) {
	own := rest.CopyConfig(config)
	if own.ContentType == "" {
		own.ContentType = runtime.ContentTypeProtobuf
		own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// NewOrDie is [New] for a configuration from which another client was made before. It panics on an
// error.
func NewOrDie(config *rest.Config) *kubernetes.Clientset {
	client, err := New(config)
	if err != nil {
		panic(err)
	}
	return client
}

// PodList returns a function that answers one list request for pods as JSON, of a namespace or of
// all for "". The caller closes the body.
func PodList(client kubernetes.Interface) func(ctx context.Context, namespace string, opts metav1.ListOptions) (io.ReadCloser, error) {
	return func(ctx context.Context, namespace string, opts metav1.ListOptions) (io.ReadCloser, error) {
		return client.CoreV1().RESTClient().Get().NamespaceIfScoped(namespace, namespace != "").Resource("pods").
			VersionedParams(&opts, scheme.ParameterCodec).SetHeader("Accept", runtime.ContentTypeJSON).Stream(ctx)
	}
}

// CreatePod returns a function that creates a pod in a namespace by server-side dry run. The pod is sent
// unchanged, also if it does not fit Kubernetes' types.
func CreatePod(client kubernetes.Interface, namespace string) func(ctx context.Context, pod map[string]any) error {
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	return func(ctx context.Context, pod map[string]any) error {
		body, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		return client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").VersionedParams(&options, scheme.ParameterCodec).
			SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
	}
}

// DryRunPod returns a function that creates pods in a namespace by server-side dry run, without the API server's
// warnings. Its errors name a right that is missing.
func DryRunPod(config *rest.Config, namespace string) func(context.Context, map[string]any) error {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	create := CreatePod(NewOrDie(config), namespace)
	return func(ctx context.Context, pod map[string]any) error {
		return rights.Explain(create(ctx, pod))
	}
}

// PodProxy returns a function that reads a path from a port of a pod through the API server. The
// function may return a body together with an error.
func PodProxy(client kubernetes.Interface, namespace string) func(ctx context.Context, pod string, port int, path string) ([]byte, error) {
	return func(ctx context.Context, pod string, port int, path string) ([]byte, error) {
		// Do would drop the body of an error.
		return client.CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").Name(fmt.Sprintf("%s:%d", pod, port)).SubResource("proxy").Suffix(path).DoRaw(ctx)
	}
}

// ServerVersion returns a function that reads the API server's /version, which is JSON.
func ServerVersion(client kubernetes.Interface) func(ctx context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		return client.CoreV1().RESTClient().Get().AbsPath("/version").SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	}
}

// WithoutKeepAlives returns a configuration whose clients send each request on a new connection: behind a load
// balancer, any API server may answer it.
func WithoutKeepAlives(config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	if own.Dial == nil { // clients share the connections of the default
		own.Dial = (&net.Dialer{}).DialContext
	}
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return closing{next} })
	return own
}

// closing closes the connection after each request.
type closing struct{ next http.RoundTripper }

func (c closing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Close = true
	return c.next.RoundTrip(r)
}
