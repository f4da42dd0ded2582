package certs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/clientset"
)

// followed holds the newest version of one object that this process has seen.
type followed[T runtime.Object] struct {
	// key is the object's key in the informer's store: NAME or NAMESPACE/NAME.
	key      string
	informer cache.SharedInformer

	mu sync.Mutex
	// failed is the last error of the watch. It counts until the first sync only.
	failed error
}

// lister is the part of a typed client that follow needs.
type lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// follow prepares to follow one object. Its requests select the object by name, as a
// Role with resourceNames requires. changed is called after every change of the object,
// and must not block.
func follow[T, L runtime.Object](client clientset.Interface, objects lister[L], namespace, name string, changed func()) (*followed[T], error) {
	only := func(opts *metav1.ListOptions) {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			only(&opts)
			return objects.List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			only(&opts)
			return objects.Watch(ctx, opts)
		},
	}
	f := &followed[T]{key: cache.NewObjectName(namespace, name).String()}
	var example T
	f.informer = cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(source, client), example, 0)
	if _, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	}); err != nil {
		return nil, fmt.Errorf("following %s: %w", f.key, err)
	}
	if err := f.informer.SetWatchErrorHandlerWithContext(f.watchFailed); err != nil {
		return nil, fmt.Errorf("following %s: %w", f.key, err)
	}
	return f, nil
}

// followSecret follows a Secret.
func followSecret(client clientset.Interface, namespace, name string, changed func()) (*followed[*corev1.Secret], error) {
	return follow[*corev1.Secret](client, client.Secrets(namespace), namespace, name, changed)
}

// subject names a followed Secret as the object of problems.
func subject(secret *followed[*corev1.Secret]) string { return "secret " + secret.key }

// run follows the object until ctx ends.
func (f *followed[T]) run(ctx context.Context) {
	f.informer.RunWithContext(ctx)
}

func (f *followed[T]) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = err
}

// get returns the newest version of the object; false if the object does not exist or is
// unknown. The caller must not change the object.
func (f *followed[T]) get() (T, bool) {
	var none T
	item, exists, err := f.informer.GetStore().GetByKey(f.key)
	if err != nil || !exists {
		return none, false
	}
	object, ok := item.(T)
	return object, ok
}

// unknown says why nothing is known of the object yet; nil once the object has been
// listed. The object stays known while the API server is away: a replica that cannot
// reach the API server still serves.
func (f *followed[T]) unknown() error {
	if f.informer.HasSynced() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return fmt.Errorf("reading the object: %w", f.failed)
	}
	return errors.New("not read yet")
}
