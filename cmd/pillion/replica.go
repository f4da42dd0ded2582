package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/certs"
	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/controller/follow"
	"github.com/pillion-dev/pillion/controller/namespaces"
	"github.com/pillion-dev/pillion/controller/proof"
	"github.com/pillion-dev/pillion/controller/settings"
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/controller/waiting"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/webhook"
)

// replica is a process of pillion serve. Its parts are made in steps, in the order of the fields. Each
// step takes what those before it made, registers its metrics, and notes what is to be run.
type replica struct {
	c        settings.Settings
	config   *rest.Config
	registry *prometheus.Registry
	metrics  *webhook.Metrics
	log      *slog.Logger
	// runs are run until the server has stopped.
	runs []func(context.Context) error

	// By connect.
	client   kubernetes.Interface
	metadata metadata.Interface
	// unlimited is for what limits itself: what writes labels and counts pods keeps no live read of a
	// namespace waiting.
	unlimited metadata.Interface

	// By follow: what is read of the cluster.
	compile    templates.Options
	namespaces *namespaces.Informer
	set        *store.Templates
	status     *store.StatusWriter
	// namespaced is nil where templates of namespaces are not served.
	namespaced *namespacedTemplates
	source     *certs.Source

	// By review: how pods are judged.
	recorder *events.Recorder
	pods     webhook.Pods

	// By write: what is written to the cluster.
	prover  *proof.Prover
	leaving *leaving

	// By listen.
	handlers map[string]http.Handler // of reviews, by path
	server   *webhook.Server
}

// assemble returns a replica that has not begun to run. It asks the API server nothing.
func assemble(c settings.Settings, config *rest.Config, registry *prometheus.Registry, log *slog.Logger) (*replica, error) {
	r := &replica{c: c, config: config, registry: registry, metrics: webhook.NewMetrics(registry), log: log}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerSettings(registry, c)
	if err := r.connect(); err != nil {
		return nil, err
	}
	if err := r.follow(); err != nil {
		return nil, err
	}
	r.review()
	r.write()
	if err := r.listen(); err != nil {
		return nil, err
	}
	return r, nil
}

// logger returns the logger of a part.
func (r *replica) logger(component string) *slog.Logger { return r.log.With("component", component) }

// run notes what is to be run.
func (r *replica) run(f ...func(context.Context) error) { r.runs = append(r.runs, f...) }

// connect makes the clients.
func (r *replica) connect() error {
	client, err := clientset.New(r.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	r.client, r.metadata = client, metadata.NewForConfigOrDie(r.config)
	unlimited := rest.CopyConfig(r.config)
	unlimited.QPS = -1
	r.unlimited = metadata.NewForConfigOrDie(unlimited)
	return nil
}

// follow makes what keeps namespaces, templates, the API server's version and certificates.
func (r *replica) follow() error {
	var err error
	if r.compile, err = r.c.Compile(); err != nil {
		return err
	}
	r.compile.Check = injector.CheckRequired
	r.namespaces = namespaces.New(namespaces.Options{Client: r.metadata, Logger: r.logger("namespaces")})
	if err := r.readTemplates(); err != nil {
		return err
	}
	r.set.OnChange(func(s *templates.Set) { r.metrics.SetTemplates(withoutProof(s)) })
	r.readNamespaced()
	r.registry.MustRegister(follow.NewCollector(r.caches))
	r.source = newSource(r.c, r.config, r.logger("certs"))
	r.registry.MustRegister(r.source)
	r.run(r.set.Run, r.source.Run)
	return nil
}

// readTemplates makes the set of the templates in force, and the writer of their statuses.
func (r *replica) readTemplates() error {
	client := dynamic.NewForConfigOrDie(r.config)
	options := store.Options{Client: client, Compile: r.compile, Logger: r.logger("templates")}
	if r.c.Proves() {
		var err error
		if options.BuiltIn, _, err = templates.Compile(proof.Manifest(r.c.Namespaces.Proof), r.compile); err != nil {
			return fmt.Errorf("compiling the template of the proof: %w", err)
		}
	}
	r.set, r.status = store.New(options), store.NewStatusWriter(client, options.Logger)
	r.status.Acceptance = r.oracle().acceptance
	r.set.OnVerdicts(func(v []store.Verdict) { r.status.Observe("", v) })
	return nil
}

// caches returns the states of the caches of the cluster's objects.
func (r *replica) caches() map[string]follow.State {
	return map[string]follow.State{"namespaces": r.namespaces.State(), "templates": r.set.State()}
}

// review makes what judges pods.
func (r *replica) review() {
	c := r.c
	settings := injector.Config{Namespace: c.Server.Namespace, ExcludedNamespaces: c.Namespaces.Excluded}
	r.recorder = events.New(events.Options{
		Client: r.client.EventsV1(), Metadata: r.metadata, Namespace: r.namespaces.UID, Owners: c.Pods.OwnerEvents,
		Explain: settings.ExplainCommand, Logger: r.logger("events"),
	})
	r.registry.MustRegister(r.recorder.Collector())
	r.run(r.recorder.Run)
	r.pods = webhook.Pods{
		Pipeline: injector.NewPipeline(settings), Namespaces: r.namespaces, Templates: r.set.Snapshot,
	}
}

// loaded returns nil once namespaces and templates are read.
func (r *replica) loaded() error {
	return errors.Join(r.namespaces.Ready(), r.set.Ready(), r.namespaced.loaded())
}

// write makes what writes to the cluster, and what counts for it.
func (r *replica) write() {
	r.prove()
	r.registry.MustRegister(r.prover)
	r.leaving = newLeaving(r.metadata, r.c, labelRemover(r.unlimited, false), r.logger("uninstall"))
	if r.c.Namespaces.UninstallMarker != "" {
		r.run(r.leaving.Run)
	}
	r.run(once(r.loaded, r.status.Run))
	if r.namespaced != nil {
		r.run(r.namespaced.Run)
	}
	r.label()
	r.countPods()
}

// listen makes the server.
func (r *replica) listen() error {
	c := r.c
	peers, err := readPeers(c.Reviews)
	if err != nil {
		return err
	}
	reviews := webhook.Options{
		Effects: r.recorder, Metrics: r.metrics, Logger: r.log, Ready: r.loaded,
		Timeout: c.Reviews.Timeout, Memory: webhook.MemoryFor(c.Server.MemoryBytes()),
	}
	r.handle(reviews)
	r.server = webhook.NewServer(webhook.ServerOptions{
		Listen: c.Server.Listen, AdminListen: c.Server.AdminListen, Connections: reviews.Memory.Connections, GetCertificate: r.source.GetCertificate, Peers: peers, Gatherer: r.registry,
		State: replicaState(r.registry, r.log), Webhooks: r.handlers,
		Checks: []webhook.Check{
			{Name: "certificates", Ready: r.source.Ready},
			{Name: "namespaces", Ready: r.namespaces.Ready},
			{Name: "templates", Ready: func() error { return errors.Join(r.set.Ready(), r.namespaced.loaded()) }},
		},
		Writers: r.loaded, ShutdownDelay: c.Server.ShutdownDelay, ShutdownTimeout: c.Server.ShutdownTimeout, Logger: r.log,
	})
	r.registry.MustRegister(r.server.Collector())
	return nil
}

// readPeers returns the clients that may send reviews.
func readPeers(r settings.Reviews) (webhook.Peers, error) {
	if r.ClientCA == "" {
		return webhook.Peers{}, nil
	}
	peers, err := webhook.ReadPeers([]byte(r.ClientCA), r.ClientNames)
	if err != nil {
		return peers, fmt.Errorf("reading reviews.clientCA: %w", err)
	}
	return peers, nil
}

// handle makes the handlers of reviews.
func (r *replica) handle(reviews webhook.Options) {
	c, middleware, namespaces := r.c, webhook.NewMiddleware(reviews), reviews
	namespaces.Memory = webhook.SideMemoryFor(c.Server.MemoryBytes())
	guard := webhook.GuardOptions{
		Compile: r.compile, ExcludedNamespaces: c.Namespaces.Excluded, Templates: r.set.Snapshot, Namespaces: r.namespaces.All,
		Namespaced: r.namespaced.count(), Problems: r.oracle().problems, Version: version,
	}
	r.handlers = map[string]http.Handler{
		"/mutate/namespaces":         webhook.NewMiddleware(namespaces).Handler(unlessLeaving{webhook.NewNamespace(c.Labels(), r.prover.Proven, r.set.Snapshot), r.leaving}),
		"/validate-sidecartemplates": middleware.Handler(webhook.NewGuard(guard)),
		"/uninstall":                 middleware.Handler(r.leaving),
	}
	for _, entry := range c.Registration().Mutating() {
		r.handlers["/mutate/"+entry.Name] = middleware.Handler(webhook.NewMutate(r.pods, entry))
	}
	for _, entry := range c.Registration().Verifying() {
		r.handlers["/verify/"+entry.Name] = middleware.Handler(webhook.NewVerify(r.pods, entry))
	}
	if c.Reviews.Preview {
		r.preview(reviews)
	}
}

// once returns a run that begins when something is ready.
func once(ready func() error, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !waiting.UntilReady(ctx, 20*time.Millisecond, ready) {
			return nil
		}
		return run(ctx)
	}
}
