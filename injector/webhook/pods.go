package webhook

import (
	"context"
	"fmt"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// Namespaces returns a namespace's metadata.
type Namespaces interface {
	Get(ctx context.Context, name string) (templates.Namespace, error)
}

// Pods are what the webhooks for pods work with. All fields are required.
type Pods struct {
	Pipeline   *injector.Pipeline
	Namespaces Namespaces
	// Templates returns the set in force.
	Templates func() *templates.Set
}

// request returns the pipeline's request for a review of a pod, without the pod
// before an update.
func (p Pods) request(ctx context.Context, r *Review, set *templates.Set) (injector.Request, error) {
	pod, err := r.Pod()
	if err != nil {
		return injector.Request{}, err
	}
	ns, err := p.Namespaces.Get(ctx, r.Namespace)
	if err != nil {
		return injector.Request{}, fmt.Errorf("reading namespace %q of the pod: %w", r.Namespace, err)
	}
	return injector.Request{
		Operation: r.Operation, Subresource: r.SubResource, FromNode: r.FromNode(),
		Pod: pod, Namespace: ns, Templates: set,
	}, nil
}
