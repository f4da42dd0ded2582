package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/controller/workloads"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/webhook"
)

// newServer returns the server of reviews, probes, metrics and state.
func (r *replica) newServer() (*webhook.Server, error) {
	s := r.settings
	peers, err := readPeers(s.Reviews)
	if err != nil {
		return nil, err
	}
	server := webhook.NewServer(webhook.ServerOptions{
		Listen: s.Server.Listen, AdminListen: s.Server.AdminListen, Connections: webhook.MemoryFor(s.Server.MemoryBytes()).Connections,
		GetCertificate: r.source.GetCertificate, Peers: peers, Gatherer: r.registry, State: replicaState(r.registry, r.log), Webhooks: r.handlers(),
		Checks: []webhook.Check{
			{Name: "certificates", Ready: r.source.Ready},
			{Name: "namespaces", Ready: r.namespaces.Ready},
			{Name: "templates", Ready: func() error { return errors.Join(r.set.Ready(), r.namespaced.loaded()) }},
		},
		Writers: r.loaded, ShutdownDelay: s.Server.ShutdownDelay, ShutdownTimeout: s.Server.ShutdownTimeout, Logger: r.log,
	})
	r.registry.MustRegister(server.Collector())
	return server, nil
}

// readPeers returns the clients that may send reviews.
func readPeers(s settings.Reviews) (webhook.Peers, error) {
	if s.ClientCA == "" {
		return webhook.Peers{}, nil
	}
	peers, err := webhook.ReadPeers([]byte(s.ClientCA), s.ClientNames)
	if err != nil {
		return peers, fmt.Errorf("reading reviews.clientCA: %w", err)
	}
	return peers, nil
}

// handlers returns the handlers of reviews, by path.
func (r *replica) handlers() map[string]http.Handler {
	s := r.settings
	reviews := webhook.Options{
		Effects: r.recorder, Metrics: r.metrics, Logger: r.log, Ready: r.loaded,
		Timeout: s.Reviews.Timeout, Memory: webhook.MemoryFor(s.Server.MemoryBytes()),
	}
	namespaces := reviews
	namespaces.Memory = webhook.SideMemoryFor(s.Server.MemoryBytes())
	labeller := webhook.NewNamespace(s.Labels(), r.prover.Proven, r.set.Snapshot)
	guard := webhook.NewGuard(webhook.GuardOptions{
		Compile: r.compile, ExcludedNamespaces: s.Namespaces.Excluded, Templates: r.set.Snapshot, Namespaces: r.namespaces.All,
		Namespaced: r.namespaced.count(), Problems: r.templateOracle().problems, Version: version,
	})
	middleware := webhook.NewMiddleware(reviews)
	handlers := map[string]http.Handler{
		"/mutate/namespaces":         webhook.NewMiddleware(namespaces).Handler(webhook.UnlessUninstalled(labeller, r.uninstall)),
		"/validate-sidecartemplates": middleware.Handler(guard),
		"/uninstall":                 middleware.Handler(webhook.NewUninstall(r.uninstall)),
	}
	for _, entry := range s.Registration().Mutating() {
		handlers["/mutate/"+entry.Name] = middleware.Handler(webhook.NewMutate(r.pods, entry))
	}
	for _, entry := range s.Registration().Verifying() {
		handlers["/verify/"+entry.Name] = middleware.Handler(webhook.NewVerify(r.pods, entry))
	}
	maps.Copy(handlers, r.previews(reviews))
	return handlers
}

// previews returns the handlers that preview workloads and namespaces. They have memory and slots of
// their own, so that previews never delay pods.
func (r *replica) previews(o webhook.Options) map[string]http.Handler {
	o.Memory, o.Advice = webhook.SideMemoryFor(r.settings.Server.MemoryBytes()), true
	options := webhook.PreviewOptions{Pods: r.pods, Created: createdPod}
	if r.settings.Pods.ReadWorkloads { // by a client of its own: pages of workloads delay nothing else
		options.Workloads = workloads.NewList(clientset.NewOrDie(r.config).CoreV1().RESTClient())
	}
	handlers := map[string]http.Handler{}
	middleware, entries := webhook.NewMiddleware(o), r.settings.Registration().Preview()
	for i, preview := range webhook.NewPreview(options, entries) {
		handlers["/"+entries[i].Name] = middleware.Handler(preview)
	}
	return handlers
}

// createdPod returns the pod template of a workload, and the pod that its controller creates of it.
func createdPod(object map[string]any, namespace string) (template, pod map[string]any, err error) {
	if _, list := object["items"]; list {
		return nil, nil, nil // no API server sends one
	}
	_, _, err = workload.Change(object, func(p workload.Pod) (map[string]any, error) {
		template, pod = p.Object, p.Created(namespace)
		return p.Object, nil
	})
	return template, pod, err
}
