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
	// Get returns cached metadata if agrees accepts them, and reads the namespace live otherwise. The
	// result of a live read is returned whether agrees accepts it or not. The error is an API status:
	// NotFound for a namespace that does not exist. With any other error, Get returns the cached
	// metadata, if there are any.
	Get(ctx context.Context, name string, agrees func(templates.Namespace) bool) (templates.Namespace, error)
}

// Pods configure the webhooks for pods. All fields are required but Now.
type Pods struct {
	Pipeline   *injector.Pipeline
	Namespaces Namespaces
	// Templates returns the set in force.
	Templates func() *templates.Set
	// Now is the clock for the end of exceptions. Default: [time.Now].
	Now func() time.Time
}

// request returns the pipeline's request for a review of a pod that came through an entry,
// without the pod. Call it before the review acquires memory: it may wait for the API server,
// for example if a forged review names a namespace that does not exist.
//
// A genuine review proves that the namespace exists and has the labels by which the entry
// selects it. If the cache contradicts that and the namespace cannot be read live, request
// returns an [unavailableError], and the API server tries another replica. If the cached
// namespace suffices for the entry ([entries.Entry.SettlesFor]), request uses it instead.
func (p Pods) request(ctx context.Context, r *Review, through entries.Entry) (injector.Request, error) {
	if err := r.checkPod(); err != nil {
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
		return injector.Request{}, &unavailableError{fmt.Errorf("the cached namespace %q is not one for which API servers call the entry %q, and reading it failed: %w", r.Namespace, through.Name, err)}
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
