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

// followed holds the newest version of one object that this process has seen.
type followed[T runtime.Object] struct {
	// key is the object's key in the cache: NAME or NAMESPACE/NAME.
	key   string
	cache *follow.Cache
}

// lister is the part of a typed client that followOne needs.
type lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// followOne prepares to follow one object. Its requests select the object by name, as a
// Role with resourceNames requires. changed is called after every change of the object,
// and once it is known. It must not block.
func followOne[T, L runtime.Object](client kubernetes.Interface, objects lister[L], namespace, name string, changed func()) *followed[T] {
	only := func(opts metav1.ListOptions) metav1.ListOptions {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		return opts
	}
	f := &followed[T]{key: cache.NewObjectName(namespace, name).String()}
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

// followSecret follows a Secret.
func followSecret(client kubernetes.Interface, namespace, name string, changed func()) *followed[*corev1.Secret] {
	return followOne[*corev1.Secret](client, client.CoreV1().Secrets(namespace), namespace, name, changed)
}

// subject names a followed Secret as the object of problems.
func subject(secret *followed[*corev1.Secret]) string { return "secret " + secret.key }

// run follows the object until ctx ends.
func (f *followed[T]) run(ctx context.Context) { f.cache.Run(ctx) }

// get returns the newest version of the object; false if the object does not exist or is
// unknown. The caller must not change the object.
func (f *followed[T]) get() (T, bool) {
	item, _ := f.cache.Get(f.key)
	object, ok := item.(T)
	return object, ok
}

// unknown says why nothing is known of the object yet; nil once the object has been
// listed. The object stays known while the API server is away: a replica that cannot
// reach the API server still serves.
func (f *followed[T]) unknown() error {
	if f.cache.HasSynced() {
		return nil
	}
	if err := cmp.Or(f.cache.Failed("list"), f.cache.Failed("watch")); err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	return errors.New("not read yet")
}
