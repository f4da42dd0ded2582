package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// fieldManager owns what a rollout writes.
const fieldManager = "pillion-rollout"

// restartedAt is the annotation of pod templates that kubectl rollout restart writes.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// pageSize is how many pods are read at once.
const pageSize = 500

// Right is what a rollout has to be allowed to do in a namespace.
type Right struct{ Verb, Group, Resource, Subresource, Namespace string }

func (r Right) resource() string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return name
}

// String says which right it is, and how an admin grants it.
func (r Right) String() string {
	if r.Namespace == "" {
		return fmt.Sprintf("%s %s in all namespaces (kubectl create clusterrole pillion-rollout --verb=%s --resource=%s, and a ClusterRoleBinding to it)", r.Verb, r.resource(), r.Verb, r.resource())
	}
	return fmt.Sprintf("%s %s in namespace %s (kubectl -n %s create role pillion-rollout --verb=%s --resource=%s, and a RoleBinding to it)", r.Verb, r.resource(), r.Namespace, r.Namespace, r.Verb, r.resource())
}

// Cluster is what a rollout asks of a cluster. Its errors are the API server's.
type Cluster interface {
	// Pods calls f with each pod of a namespace, of all for "".
	Pods(ctx context.Context, namespace string, f func(pod map[string]any) error) error
	// Pod returns a pod.
	Pod(ctx context.Context, namespace, name string) (map[string]any, error)
	// Namespace returns the metadata of a namespace.
	Namespace(ctx context.Context, name string) (templates.Namespace, error)
	// Object returns an owner of pods. Only kinds of Kubernetes itself can be asked for.
	Object(ctx context.Context, o Owner) (map[string]any, error)
	// Create creates a pod by dry run.
	Create(ctx context.Context, namespace string, pod map[string]any) (map[string]any, error)
	// Evict evicts the pod, if it still has its UID.
	Evict(ctx context.Context, pod Pod, dryRun bool) error
	// Patch sends a JSON patch of a pod.
	Patch(ctx context.Context, pod Pod, patch []byte, dryRun bool) error
	// Restart has the owner replace its pods, as kubectl rollout restart does.
	Restart(ctx context.Context, o Owner, at time.Time, dryRun bool) error
	// May reports whether the user has a right.
	May(ctx context.Context, r Right) (bool, error)
}

// Connect returns the cluster of a client.
func Connect(client dynamic.Interface) Cluster { return connected{client} }

type connected struct{ client dynamic.Interface }

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// Pods implements [Cluster].
func (c connected) Pods(ctx context.Context, namespace string, f func(map[string]any) error) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := c.client.Resource(podsResource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return c.named(ctx, err, Right{Verb: "list", Resource: "pods", Namespace: namespace}, "listing pods")
		}
		for i := range page.Items {
			pod, err := exact(&page.Items[i])
			if err != nil {
				return err
			}
			page.Items[i].Object = nil
			if err := f(pod); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// exact returns an object as the pipeline wants it, with its numbers as json.Number.
func exact(u *unstructured.Unstructured) (map[string]any, error) {
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return injector.DecodePod(data)
}

// Pod implements [Cluster].
func (c connected) Pod(ctx context.Context, namespace, name string) (map[string]any, error) {
	u, err := c.client.Resource(podsResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.named(ctx, err, Right{Verb: "get", Resource: "pods", Namespace: namespace}, "reading pod "+name)
	}
	return exact(u)
}

// Namespace implements [Cluster].
func (c connected) Namespace(ctx context.Context, name string) (templates.Namespace, error) {
	u, err := c.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return templates.Namespace{}, c.named(ctx, err, Right{Verb: "get", Resource: "namespaces"}, "reading namespace "+name)
	}
	return injector.NamespaceOf(u.Object), nil
}

// Object implements [Cluster].
func (c connected) Object(ctx context.Context, o Owner) (map[string]any, error) {
	group, version, resource, known := o.resource()
	if !known {
		return nil, fmt.Errorf("reading %s in namespace %s: kinds of %s are not known here", o, o.Namespace, o.APIVersion)
	}
	u, err := c.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, c.named(ctx, err, Right{Verb: "get", Group: group, Resource: resource, Namespace: o.Namespace}, "reading "+o.String())
	}
	return u.Object, nil
}

// Create implements [Cluster].
func (c connected) Create(ctx context.Context, namespace string, pod map[string]any) (map[string]any, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("writing a pod of namespace %s: %w", namespace, err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("writing a pod of namespace %s: %w", namespace, err)
	}
	made, err := c.client.Resource(podsResource).Namespace(namespace).Create(ctx, &u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	if err != nil {
		return nil, err // the caller tells refusals apart
	}
	return exact(made)
}

// Evict implements [Cluster].
func (c connected) Evict(ctx context.Context, pod Pod, dryRun bool) error {
	eviction := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata":      map[string]any{"name": pod.Name, "namespace": pod.Namespace},
		"deleteOptions": map[string]any{"preconditions": map[string]any{"uid": pod.UID}},
	}}
	_, err := c.client.Resource(podsResource).Namespace(pod.Namespace).Create(ctx, eviction, metav1.CreateOptions{DryRun: dry(dryRun), FieldManager: fieldManager}, "eviction")
	return c.named(ctx, err, Right{Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: pod.Namespace}, "evicting pod "+pod.Name)
}

func dry(run bool) []string {
	if run {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Patch implements [Cluster].
func (c connected) Patch(ctx context.Context, pod Pod, patch []byte, dryRun bool) error {
	_, err := c.client.Resource(podsResource).Namespace(pod.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, patch, metav1.PatchOptions{DryRun: dry(dryRun), FieldManager: fieldManager})
	return c.named(ctx, err, Right{Verb: "patch", Resource: "pods", Namespace: pod.Namespace}, "changing pod "+pod.Name)
}

// Restart implements [Cluster].
func (c connected) Restart(ctx context.Context, o Owner, at time.Time, dryRun bool) error {
	group, version, resource, _ := o.resource()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{restartedAt: at.Format(time.RFC3339)}}}}})
	if err != nil {
		return err
	}
	_, err = c.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}).Namespace(o.Namespace).
		Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry(dryRun), FieldManager: fieldManager})
	return c.named(ctx, err, Right{Verb: "patch", Group: group, Resource: resource, Namespace: o.Namespace}, "restarting "+o.String())
}

// May implements [Cluster].
func (c connected) May(ctx context.Context, r Right) (bool, error) {
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": authorizationv1.SchemeGroupVersion.String(), "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{"verb": r.Verb, "group": r.Group, "resource": r.Resource, "subresource": r.Subresource, "namespace": r.Namespace}},
	}}
	answer, err := c.client.Resource(authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the API server for the right to %s: %w", r, err)
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}

// MissingRightError says which right the user lacks.
type MissingRightError struct {
	Right Right
	Err   error
}

// Error names the right, and how an admin grants it.
func (e *MissingRightError) Error() string {
	return fmt.Sprintf("you lack the right to %s: %v", e.Right, e.Err)
}

// Unwrap returns the API server's answer.
func (e *MissingRightError) Unwrap() error { return e.Err }

// named says what was being done. Of a right that is missing it says which it is: whether
// the right is missing, or a webhook forbids the request, the API server is asked.
func (c connected) named(ctx context.Context, err error, r Right, doing string) error {
	if err == nil {
		return nil
	}
	if r.Namespace != "" {
		doing += " in namespace " + r.Namespace
	}
	if apierrors.IsForbidden(err) {
		if may, e := c.May(ctx, r); e == nil && !may {
			err = &MissingRightError{r, err}
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
