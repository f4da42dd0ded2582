package main

import (
	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/workloads"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/webhook"
)

// preview adds the handlers that preview workloads and namespaces. They have memory and turns of
// their own, so that previews take nothing from pods.
func (r *replica) preview(o webhook.Options) {
	o.Memory, o.Advice = webhook.SideMemoryFor(r.c.Server.MemoryBytes()), true
	options := webhook.PreviewOptions{Pods: r.pods, Created: created}
	if r.c.Pods.ReadWorkloads { // by a client of its own: nothing else waits for pages of workloads
		options.Workloads = workloads.NewList(clientset.NewOrDie(r.config).CoreV1().RESTClient())
	}
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
