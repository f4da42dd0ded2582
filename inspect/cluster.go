package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/coverage"
)

// Cluster reads a cluster with the user's own rights.
type Cluster struct {
	Place
	// Objects reads objects of all kinds. Names reads only their metadata.
	Objects dynamic.Interface
	Names   metadata.Interface
	// Pods lists pods as JSON.
	Pods coverage.List

	// Version reads the API server's /version.
	Version func(context.Context) ([]byte, error)
	// Proxy reads a path from a port of one of Pillion's pods. It may return a body together with an
	// error.
	Proxy func(ctx context.Context, pod string, port int, path string) ([]byte, error)
	// Trial creates pods by dry run.
	Trial dynamic.Interface

	// namespaceErrors has the errors of reads of templates, by namespace.
	namespaceErrors sync.Map
	// host is the API server's address.
	host string
	// trialWarnings has the warnings of Trial.
	trialWarnings warnings
}

// Open returns the cluster of a connection. It sends no request.
func Open(config *rest.Config, place Place) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	typed, err := clientset.New(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	trying := rest.CopyConfig(config)
	c := &Cluster{
		Place: place, Pods: clientset.PodList(typed), host: config.Host, Version: clientset.ServerVersion(typed),
		Objects: dynamic.NewForConfigOrDie(config), Names: metadata.NewForConfigOrDie(config),
		Proxy: clientset.PodProxy(typed, place.Namespace),
	}
	trying.WarningHandler = &c.trialWarnings
	c.Trial = dynamic.NewForConfigOrDie(trying)
	return c, nil
}

// versionTimeout bounds a read of the API server's version.
const versionTimeout = 5 * time.Second

// KubernetesVersion returns the version of the API server.
func (c *Cluster) KubernetesVersion(ctx context.Context) (*version.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	body, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	var info struct{ Major, Minor string }
	if err := json.Unmarshal(body, &info); err != nil {
		return nil, fmt.Errorf("reading /version: %w", err)
	}
	parsed, err := version.ParseMajorMinor(info.Major + "." + strings.TrimSuffix(info.Minor, "+"))
	if err != nil {
		return nil, fmt.Errorf("reading /version: %w", err)
	}
	return parsed, nil
}

// CheckConnection returns an error if the API server does not answer, or does not accept the user's
// credentials.
func (c *Cluster) CheckConnection(ctx context.Context) error {
	_, err := c.KubernetesVersion(ctx)
	var transport *url.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server %s does not accept your credentials, which may have ended (kubectl config view --minify): %w", c.host, err)
	case errors.As(err, &transport) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server %s does not answer (kubectl cluster-info; --context and --kubeconfig choose another): %w", c.host, err)
	}
	return nil
}

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// Get reads an object.
func Get[T any](ctx context.Context, c *Cluster, of schema.GroupVersionResource, namespace, name string) (object T, err error) {
	u, err := c.Objects.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object)
	}
	if err != nil {
		return object, fmt.Errorf("reading %s %s: %w", of.Resource, name, err)
	}
	return object, nil
}

// List reads the objects of a namespace, or of all namespaces for "".
func List[T any](ctx context.Context, c *Cluster, of schema.GroupVersionResource, namespace string, options metav1.ListOptions) ([]T, error) {
	list, err := c.Objects.Resource(of).Namespace(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", of.Resource, err)
	}
	all := make([]T, len(list.Items))
	for i, u := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &all[i]); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", of.Resource, u.GetName(), err)
		}
	}
	return all, nil
}

// EachName calls f with the metadata of the objects of a resource, page by page.
func (c *Cluster) EachName(ctx context.Context, of schema.GroupVersionResource, f func(*metav1.PartialObjectMetadata)) error {
	options := metav1.ListOptions{Limit: coverage.PageSize}
	for {
		page, err := c.Names.Resource(of).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing %s: %w", of.Resource, err)
		}
		for i := range page.Items {
			f(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// The resources that several commands read.
var (
	NamespacesResource = corev1.SchemeGroupVersion.WithResource("namespaces")
	PodsResource       = corev1.SchemeGroupVersion.WithResource("pods")
)

// podsWith returns a list of the pods that match a selector, or of all pods for "".
func (c *Cluster) podsWith(selector string) coverage.List {
	return func(ctx context.Context, namespace string, o metav1.ListOptions) (io.ReadCloser, error) {
		o.LabelSelector = selector
		return c.Pods(ctx, namespace, o)
	}
}

// DryRun creates a pod by dry run. It returns the warnings of the API server, too.
func (c *Cluster) DryRun(ctx context.Context, namespace string, pod *unstructured.Unstructured) (made *unstructured.Unstructured, warnings []string, err error) {
	c.trialWarnings.drain()
	made, err = c.Trial.Resource(PodsResource).Namespace(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return made, c.trialWarnings.drain(), err
}

// warnings collects the warnings of API servers.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements [rest.WarningHandler].
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// drain returns and clears the warnings.
func (w *warnings) drain() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}
