package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/pillion-dev/pillion/controller/rights"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// fieldManager is the field manager of a rollout's writes.
const fieldManager = "pillion-rollout"

// restartedAt is the annotation of pod templates that kubectl rollout restart writes.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// Cluster has the requests of a rollout. Its errors are the API server's.
type Cluster interface {
	// Pods calls f with each pod of a namespace, or of all namespaces for "".
	Pods(ctx context.Context, namespace string, f func(pod map[string]any) error) error
	// Pod returns a pod.
	Pod(ctx context.Context, namespace, name string) (map[string]any, error)
	// Namespace returns the metadata of a namespace.
	Namespace(ctx context.Context, name string) (templates.Namespace, error)
	// Object returns a Deployment, a StatefulSet or a DaemonSet.
	Object(ctx context.Context, o Owner) (map[string]any, error)
	// Create creates a pod by dry run.
	Create(ctx context.Context, namespace string, pod map[string]any) (map[string]any, error)
	// Patch sends a JSON patch of a pod.
	Patch(ctx context.Context, pod Pod, patch []byte, dryRun bool) error
	// Restart makes the owner replace its pods, as kubectl rollout restart does.
	Restart(ctx context.Context, o Owner, at time.Time, dryRun bool) error
}

// Connect returns the cluster of a client.
func Connect(client dynamic.Interface) Cluster { return clusterClient{client} }

type clusterClient struct{ client dynamic.Interface }

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// Pods implements [Cluster].
func (c clusterClient) Pods(ctx context.Context, namespace string, f func(map[string]any) error) error {
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		page, err := c.client.Resource(podsResource).Namespace(namespace).List(ctx, options)
		return page, wrapError(err, namespace, "listing pods")
	}))
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		pod, err := decodePod(item.(*unstructured.Unstructured))
		if err != nil {
			return err
		}
		return f(pod)
	})
}

// decodePod decodes a pod for the pipeline, with numbers as json.Number.
func decodePod(u *unstructured.Unstructured) (map[string]any, error) {
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return injector.DecodePod(data)
}

// Pod implements [Cluster].
func (c clusterClient) Pod(ctx context.Context, namespace, name string) (map[string]any, error) {
	u, err := c.client.Resource(podsResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, wrapError(err, namespace, "reading pod "+name)
	}
	return decodePod(u)
}

// Namespace implements [Cluster].
func (c clusterClient) Namespace(ctx context.Context, name string) (templates.Namespace, error) {
	u, err := c.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return templates.Namespace{}, wrapError(err, "", "reading namespace "+name)
	}
	return injector.NamespaceOf(u.Object), nil
}

// Object implements [Cluster].
func (c clusterClient) Object(ctx context.Context, o Owner) (map[string]any, error) {
	kind, _ := o.resource()
	u, err := c.client.Resource(kind.GroupVersionResource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, wrapError(err, o.Namespace, "reading "+o.String())
	}
	return u.Object, nil
}

// Create implements [Cluster].
func (c clusterClient) Create(ctx context.Context, namespace string, pod map[string]any) (map[string]any, error) {
	made, err := c.client.Resource(podsResource).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: pod}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	if err != nil {
		return nil, rights.Explain(err) // the caller distinguishes refusals
	}
	return decodePod(made)
}

func dryRunOptions(run bool) []string {
	if run {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Patch implements [Cluster].
func (c clusterClient) Patch(ctx context.Context, pod Pod, patch []byte, dryRun bool) error {
	_, err := c.client.Resource(podsResource).Namespace(pod.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{DryRun: dryRunOptions(dryRun), FieldManager: fieldManager})
	return wrapError(err, pod.Namespace, "changing pod "+pod.Name)
}

// Restart implements [Cluster].
func (c clusterClient) Restart(ctx context.Context, o Owner, at time.Time, dryRun bool) error {
	kind, _ := o.resource()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{restartedAt: at.Format(time.RFC3339)}}}}})
	if err != nil {
		return err
	}
	_, err = c.client.Resource(kind.GroupVersionResource).Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRunOptions(dryRun), FieldManager: fieldManager})
	return wrapError(err, o.Namespace, "restarting "+o.String())
}

// wrapError adds the operation to an error, and names a missing right.
func wrapError(err error, namespace, doing string) error {
	if err == nil {
		return nil
	}
	if namespace != "" {
		doing += " in namespace " + namespace
	}
	return rights.Explain(fmt.Errorf("%s: %w", doing, err))
}
