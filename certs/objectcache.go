package certs

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/pillion-dev/pillion/controller/follow"
)

// objectCache has the newest version of one object that this process has seen.
type objectCache[T runtime.Object] struct {
	// key is the object's key in the cache: NAME or NAMESPACE/NAME.
	key   string
	cache *follow.Cache
}

// lister is the part of a typed client that newObjectCache needs.
type lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// newObjectCache returns a cache of one object. Its requests select the object by name, as a
// Role with resourceNames requires. changed is called after every change of the object,
// and once the object is known. It must not block.
func newObjectCache[T, L runtime.Object](client kubernetes.Interface, objects lister[L], namespace, name string, changed func()) *objectCache[T] {
	only := func(opts metav1.ListOptions) metav1.ListOptions {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		return opts
	}
	f := &objectCache[T]{key: cache.NewObjectName(namespace, name).String()}
	var example T
	f.cache = follow.New(follow.Options{
		Name: f.key, Example: example,
		List: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, only(opts))
		},
		Watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, only(opts))
		},
		Changed: func(string) { changed() }, Filled: changed,
	})
	return f
}

// newSecretCache returns a cache of one Secret.
func newSecretCache(client kubernetes.Interface, namespace, name string, changed func()) *objectCache[*corev1.Secret] {
	return newObjectCache[*corev1.Secret](client, client.CoreV1().Secrets(namespace), namespace, name, changed)
}

// subject names the Secret of a cache as the object of problems.
func subject(secret *objectCache[*corev1.Secret]) string { return "secret " + secret.key }

// run follows the object until ctx ends.
func (f *objectCache[T]) run(ctx context.Context) { f.cache.Run(ctx) }

// get returns the newest version of the object; false if the object does not exist or is
// unknown. The caller must not change the object.
func (f *objectCache[T]) get() (T, bool) {
	item, _ := f.cache.Get(f.key)
	object, ok := item.(T)
	return object, ok
}

// unknown returns why the object is not known yet, and nil once the object has been
// listed. The object stays known while the API server is away: a replica that cannot
// reach the API server still serves.
func (f *objectCache[T]) unknown() error {
	if f.cache.HasSynced() {
		return nil
	}
	if err := cmp.Or(f.cache.Failed("list"), f.cache.Failed("watch")); err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	return errors.New("not read yet")
}
