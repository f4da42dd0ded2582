package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/injector/webhook"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/offline/workload"
)

// addPreview adds the handlers that preview workloads and namespaces, if the settings want
// them. They have memory and turns of their own, so that previews take nothing from pods.
func addPreview(handlers map[string]http.Handler, c serveConfig, config *rest.Config, pods webhook.Pods, o webhook.Options, log *slog.Logger) error {
	if !c.Preview {
		return nil
	}
	o.Memory, o.Advice = webhook.AdviceMemoryFor(c.MemoryLimit), true
	options := webhook.PreviewOptions{Pods: pods, Prefix: c.AnnotationPrefix, Created: created, Refused: refusedBy(nil)}
	if c.PreviewLimits {
		limits, err := newLimitReader(config, log)
		if err != nil {
			return err
		}
		options.Refused = refusedBy(limits.read)
	}
	middleware, entries := webhook.NewMiddleware(o), webhook.PreviewEntries(c.AnnotationPrefix, c.WebhookScope == scopeAll)
	for i, preview := range webhook.NewPreview(options, entries) {
		handlers["/"+entries[i].Name] = middleware.Handler(preview)
	}
	return nil
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

// refusedBy returns the function that says what refuses a pod because of its injection. The
// limits of the namespace are read by limits, but for a pod that is being created; nil: they are
// not known.
func refusedBy(limits func(ctx context.Context, namespace string) predict.Namespace) func(context.Context, webhook.Injection) []string {
	return func(ctx context.Context, p webhook.Injection) []string {
		var in predict.Namespace
		if limits != nil && !p.Creates {
			in = limits(ctx, p.Namespace.Name)
		}
		in.Namespace = p.Namespace
		var said []string
		for _, t := range predict.Troubles(predict.Input{Before: p.Before, After: p.After, Namespace: in, Injected: p.Injected}) {
			switch {
			case t.AlsoWithout, t.Source == predict.PodSecurity && !t.Refused: // not because of the sidecars, or nothing is refused
			case t.Refused, t.Source == predict.Job: // whatever the moment
				said = append(said, t.String())
			default:
				said = append(said, fmt.Sprintf("at the moment, %s", t))
			}
		}
		return slices.Clip(said)
	}
}
