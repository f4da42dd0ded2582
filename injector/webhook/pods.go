package webhook

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
)

// Namespaces returns a namespace's metadata. The error is one of the API's: NotFound for
// a namespace that does not exist, and TooManyRequests if that cannot be found out now.
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

// request returns the pipeline's request for a review of a pod, without the pod. It
// comes before the review holds any memory: the namespace of a forged review takes a
// request to the API server to be found out.
func (p Pods) request(ctx context.Context, r *Review) (injector.Request, error) {
	if err := r.aboutPod(); err != nil {
		return injector.Request{}, err
	}
	ns, err := p.Namespaces.Get(ctx, r.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		return injector.Request{}, malformed(http.StatusNotFound, "there is no namespace %q", r.Namespace)
	case apierrors.IsTooManyRequests(err):
		return injector.Request{}, &unavailableError{err}
	case err != nil:
		return injector.Request{}, fmt.Errorf("reading namespace %q of the pod: %w", r.Namespace, err)
	}
	fromNode, err := r.FromNode()
	if err != nil {
		return injector.Request{}, err
	}
	return injector.Request{
		Operation: r.Operation, Subresource: r.SubResource, FromNode: fromNode,
		Namespace: ns, Templates: p.Templates(),
	}, nil
}
