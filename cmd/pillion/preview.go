package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/webhook"
)

// preview adds the handlers that preview workloads and namespaces. They have memory and turns of
// their own, so that previews take nothing from pods.
func (r *replica) preview(options webhook.PreviewOptions, o webhook.Options) {
	o.Memory, o.Advice = webhook.AdviceMemoryFor(r.c.MemoryLimit), true
	options.Created, options.Refused = created, r.limits.refused
	middleware, entries := webhook.NewMiddleware(o), r.c.Registration().Preview()
	for i, preview := range webhook.NewPreview(options, entries) {
		r.handlers["/"+entries[i].Name] = middleware.Handler(preview)
	}
}

// created returns the pod template of a workload, and the pod that is created of it.
func created(object map[string]any, namespace string) (template, pod map[string]any, err error) {
	if _, list := object["items"]; list {
		return nil, nil, nil // no API server sends one
	}
	_, _, err = workload.Change(object, func(p workload.Pod) (map[string]any, error) {
		template, pod = p.Object, p.Created(namespace)
		return p.Object, nil
	})
	return template, pod, err
}

// namespaceLimits finds out what keeps pods of namespaces from being created. Its zero value finds
// out nothing.
type namespaceLimits struct {
	// read returns what limits the pods of a namespace, as far as it can be found out soon.
	read func(ctx context.Context, namespace string) predict.Namespace
	// failure returns the API server's words about the pods that the controller of a pod could not
	// create, "" for none.
	failure func(ctx context.Context, namespace string, pod map[string]any) string
}

// troubles returns what keeps a pod from coming to be, or its Job from finishing, because of its
// injection. Of a pod that is being created, no limits are read: it would wait for them.
func (l namespaceLimits) troubles(ctx context.Context, p webhook.Injection) []predict.Trouble {
	var in predict.Namespace
	if l.read != nil && !p.Creates {
		in = l.read(ctx, p.Namespace.Name)
	}
	in.Namespace = p.Namespace
	return slices.DeleteFunc(predict.Troubles(predict.Input{Before: p.Before, After: p.After, Namespace: in, Injected: p.Injected}), func(t predict.Trouble) bool {
		return t.AlsoWithout || t.Source == predict.PodSecurity && !t.Refused // not because of the sidecars, or nothing is refused
	})
}

// refused returns a sentence for each trouble of a pod.
func (l namespaceLimits) refused(ctx context.Context, p webhook.Injection) []string {
	var said []string
	for _, t := range l.troubles(ctx, p) {
		if t.Refused || t.Source == predict.Job { // whatever the moment
			said = append(said, t.String())
		} else {
			said = append(said, fmt.Sprintf("at the moment, %s", t))
		}
	}
	return said
}

// foretold returns an event for each trouble of a pod that does not depend on the moment. What is
// used of a quota does: it may count the very pod. So a quota that is used up is an event only if
// the pod's controller could not create pods because of it.
func (l namespaceLimits) foretold(ctx context.Context, p webhook.Injection) []events.Event {
	var all []events.Event
	for _, t := range l.troubles(ctx, p) {
		switch {
		case t.Refused, t.Source == predict.ResourceQuota && l.exceeds(ctx, p, t.Object):
			all = append(all, events.Event{Code: reason.RefusedByCluster, Message: t.String()})
		case t.Source == predict.Job:
			all = append(all, events.Event{Code: reason.JobNeverFinishes, Message: t.String()})
		}
	}
	return all
}

// exceeds reports whether the controller of a pod could not create pods because of a quota.
func (l namespaceLimits) exceeds(ctx context.Context, p webhook.Injection, quota string) bool {
	// The API server's words: pods "web-1" is forbidden: exceeded quota: NAME, requested: …
	return l.failure != nil && strings.Contains(l.failure(ctx, p.Namespace.Name, p.Before), "exceeded quota: "+quota+",")
}
