package inspect

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/templates"
)

// NamespacedTemplates returns the set with the templates of namespaces. It reads each namespace with
// the user's rights when the set is first used for it.
func (c *Cluster) NamespacedTemplates(ctx context.Context, set *templates.Set, compile templates.Options) *templates.Set {
	read := func(namespace string) []templates.Entry {
		list, err := c.Objects.Resource(store.NamespacedResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return nil // the CRD is not installed
		}
		if err == nil {
			return store.CompileNamespace(list.Items, compile)
		}
		c.namespaceErrors.Store(namespace, err)
		return nil
	}
	var mu sync.Mutex
	own := map[string][]templates.Entry{}
	return set.WithNamespaces(func(namespace string) []templates.Entry {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := own[namespace]; !ok {
			own[namespace] = read(namespace)
		}
		return own[namespace]
	})
}

// listNamespaced returns all NamespacedSidecarTemplates by their namespaces.
func (c *Cluster) listNamespaced(ctx context.Context) (map[string][]unstructured.Unstructured, error) {
	resource := c.Objects.Resource(store.NamespacedResource)
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) })
	objects := map[string][]unstructured.Unstructured{}
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if o, ok := object.(*unstructured.Unstructured); ok {
			objects[o.GetNamespace()] = append(objects[o.GetNamespace()], *o)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", store.NamespacedResource.Resource, err)
	}
	return objects, nil
}

// AllNamespacedTemplates reads the templates of all namespaces.
func (c *Cluster) AllNamespacedTemplates(ctx context.Context, compile templates.Options) (map[string][]templates.Entry, error) {
	objects, err := c.listNamespaced(ctx)
	if err != nil && !apierrors.IsNotFound(err) { // without the CRD there are none
		return nil, err
	}
	all := map[string][]templates.Entry{}
	for namespace, of := range objects {
		all[namespace] = store.CompileNamespace(of, compile)
	}
	return all, nil
}

// NamespaceOf is [Cluster.NamespaceOf]. It adds a gap if the namespace or its own templates cannot be
// read.
func (l *Live) NamespaceOf(ctx context.Context, name string) (Namespace, error) {
	ns, err := l.Cluster.NamespaceOf(ctx, name)
	if ns.Unread != nil {
		l.addGap(fmt.Sprintf("the label and the annotations of namespace %s", name), ns.Unread)
	}
	if err != nil || l.Templates == nil {
		return ns, err
	}
	l.Templates.In(name)
	unread, failed := l.namespaceErrors.Load(name)
	switch err, _ := unread.(error); {
	case !failed:
	case apierrors.IsForbidden(err):
		l.addGap(fmt.Sprintf("the templates of namespace %s itself", name), err)
	default:
		return ns, fmt.Errorf("reading the templates of namespace %s itself: %w", name, err)
	}
	return ns, nil
}
