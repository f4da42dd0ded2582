package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/templates"
)

// Namespaces returns a namespace's metadata.
type Namespaces interface {
	// Get returns the metadata from a cache where they agree with what the caller knows of the
	// namespace, and reads them live otherwise. What is read live need not agree. The error is one of
	// the API's: NotFound for a namespace that does not exist. Beside any other are those of the cache,
	// if it has them.
	Get(ctx context.Context, name string, agrees func(templates.Namespace) bool) (templates.Namespace, error)
}

// Pods are what the webhooks for pods work with. All fields are required but Now.
type Pods struct {
	Pipeline   *injector.Pipeline
	Namespaces Namespaces
	// Templates returns the set in force.
	Templates func() *templates.Set
	// Now is the clock by which exceptions of required templates end. Default: [time.Now].
	Now func() time.Time
}

// request returns the pipeline's request for a review of a pod that came through an entry,
// without the pod. It comes before the review holds any memory: the namespace of a forged
// review takes a request to the API server to be found out.
//
// The review itself proves that the namespace exists, and that it has the labels by which the
// entry selects it. Where that cannot be found out, this replica knows too little: the API
// server is asked to try again, at another one. At an entry for which the cached namespace will
// do ([entries.Entry.SettlesFor]), that answers.
func (p Pods) request(ctx context.Context, r *Review, through entries.Entry) (injector.Request, error) {
	if err := r.aboutPod(); err != nil {
		return injector.Request{}, err
	}
	ns, err := p.Namespaces.Get(ctx, r.Namespace, through.Selects)
	switch {
	case err != nil && ns.Name != "" && ctx.Err() == nil && through.SettlesFor(ns):
	case apierrors.IsNotFound(err):
		return injector.Request{}, malformed(http.StatusNotFound, "there is no namespace %q", r.Namespace)
	case apierrors.IsForbidden(err), errors.Is(err, context.Canceled):
		return injector.Request{}, fmt.Errorf("reading namespace %q of the pod: %w", r.Namespace, err)
	case err != nil:
		return injector.Request{}, &unavailableError{fmt.Errorf("the cache has namespace %q not as the API server does, which sent the pod to %q: %w", r.Namespace, through.Name, err)}
	}
	fromNode, err := r.FromNode()
	if err != nil {
		return injector.Request{}, err
	}
	return injector.Request{
		Operation: r.Operation, Subresource: r.SubResource, FromNode: fromNode,
		Namespace: ns, Templates: p.Templates().In(r.Namespace), Now: p.now(),
	}, nil
}

func (p Pods) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}
