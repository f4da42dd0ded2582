package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
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
	"github.com/pillion-dev/pillion/controller/store"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/webhook"
)

// replica is a process of pillion serve. Its parts are made in steps, in the order of the fields. Each
// step takes what those before it made, registers its metrics, and notes what is to be run.
type replica struct {
	c        serveConfig
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
	// status and namespaced are nil where no templates of the cluster are served.
	status     *store.StatusWriter
	namespaced *namespacedTemplates
	source     *certs.Source

	// By review: how pods are judged.
	recorder *events.Recorder
	pods     webhook.Pods

	// By write: what is written to the cluster.
	prover  *proof.Prover
	counter *usage.Counter
	inUse   []webhook.Check
	leaving *leaving

	// By listen.
	handlers map[string]http.Handler // of reviews, by path
	server   *webhook.Server
}

// assemble returns a replica that has not begun to run. It asks the API server nothing.
func assemble(cmd *cobra.Command, c serveConfig, config *rest.Config, registry *prometheus.Registry, log *slog.Logger) (*replica, error) {
	r := &replica{c: c, config: config, registry: registry, metrics: webhook.NewMetrics(registry), log: log}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerSettings(registry, c)
	if err := r.connect(); err != nil {
		return nil, err
	}
	if err := r.follow(cmd); err != nil {
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
func (r *replica) follow(cmd *cobra.Command) error {
	c := r.c
	r.compile = templates.Options{Prefix: c.Prefix, ForeignSidecars: c.ForeignSidecars, Check: injector.CheckRequired}
	var err error
	if c.Values != "" {
		if r.compile.Values, err = readValues(cmd, c.Values); err != nil {
			return err
		}
	}
	r.namespaces = namespaces.New(namespaces.Options{
		Client: r.metadata, Prefix: c.Prefix, Logger: r.logger("namespaces"),
	})
	if err := r.readTemplates(); err != nil {
		return err
	}
	r.set.OnChange(func(s *templates.Set) { r.metrics.SetTemplates(withoutProof(s)) })
	r.readNamespaced()
	r.registry.MustRegister(follow.NewCollector(r.caches))
	r.source = newSource(c, r.config, r.logger("certs"))
	r.registry.MustRegister(r.source)
	r.run(r.set.Run, r.source.Run)
	return nil
}

// readTemplates makes the set of the templates in force, and the writer of the statuses of those of
// the cluster.
func (r *replica) readTemplates() error {
	c := r.c
	options := store.Options{Compile: r.compile, Named: r.named, Logger: r.logger("templates")}
	if c.proves() { // first, so that the name is nobody else's
		options.Sources = append(options.Sources, store.BuiltIn(proofSource, proof.Manifest(c.Prefix, c.ProofNamespace)))
	}
	if len(c.Library) > 0 {
		source, err := store.Library(r.compile.Values, c.Library...)
		if err != nil {
			return err
		}
		options.Sources = append(options.Sources, source)
	}
	for _, dir := range c.Templates {
		options.Sources = append(options.Sources, store.Directory(dir))
	}
	if !c.ClusterTemplates {
		r.set = store.New(options)
		return nil
	}
	client := dynamic.NewForConfigOrDie(r.config)
	options.Sources = append(options.Sources, store.Cluster(client, c.Prefix, options.Logger))
	r.set, r.status = store.New(options), store.NewStatusWriter(client, c.Prefix, options.Logger)
	r.status.Acceptance = r.oracle().acceptance
	r.set.OnVerdicts(func(v []store.Verdict) { r.status.Observe("templates", v) })
	return nil
}

// caches returns the states of the caches of the cluster's objects.
func (r *replica) caches() map[string]follow.State {
	states := map[string]follow.State{"namespaces": r.namespaces.State()}
	if state, ok := r.set.State(); ok {
		states["templates"] = state
	}
	return states
}

// review makes what judges pods.
func (r *replica) review() {
	c := r.c
	settings := injector.Config{Prefix: c.Prefix, Namespace: c.Namespace, ExcludedNamespaces: c.Excluded}
	r.recorder = events.New(events.Options{
		Client: r.client.EventsV1(), Metadata: r.metadata, Namespace: r.namespaces.UID, Owners: c.OwnerEvents,
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

// mayWrite returns nil while the replica may write to the cluster. One that is held up has not all
// templates: it must take no label off, and has nothing to say in a status.
func (r *replica) mayWrite() error {
	return errors.Join(r.loaded(), checkAll(r.inUse))
}

// write makes what writes to the cluster, and what counts for it.
func (r *replica) write() {
	r.prove()
	r.registry.MustRegister(r.prover)
	r.countUsage()
	r.gateUpgrades()
	r.leaving = newLeaving(r.metadata, r.c, labelRemover(r.unlimited, r.c.Prefix, false), r.logger("uninstall"))
	if r.c.UninstallMarker != "" {
		r.run(r.leaving.Run)
	}
	if r.status != nil {
		r.counter.OnCount(func(count usage.Count) { r.status.Counted(count.In) })
		r.run(once(r.mayWrite, r.status.Run))
		r.mirror()
	}
	if r.namespaced != nil {
		r.run(r.namespaced.Run, once(r.mayWrite, r.namespaced.status.Run))
	}
	r.label()
	r.countPods()
}

// listen makes the server.
func (r *replica) listen() error {
	c := r.c
	peers, err := c.peers()
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.ClientCAFile, err)
	}
	reviews := webhook.Options{
		Effects: r.recorder, Metrics: r.metrics, Logger: r.log, Ready: r.loaded,
		Timeout: c.ReviewTimeout, Memory: webhook.MemoryFor(c.MemoryLimit),
	}
	r.handle(reviews)
	r.server = webhook.NewServer(webhook.ServerOptions{
		Listen: c.Listen, AdminListen: c.AdminListen, Connections: reviews.Memory.Connections, GetCertificate: r.source.GetCertificate, Peers: peers, Gatherer: r.registry,
		State: c.state(r.registry, r.log), Webhooks: r.handlers,
		Checks: append([]webhook.Check{
			{Name: "certificates", Ready: r.source.Ready},
			{Name: "namespaces", Ready: r.namespaces.Ready},
			{Name: "templates", Ready: func() error { return errors.Join(r.set.Ready(), r.namespaced.loaded()) }},
		}, r.inUse...),
		Writers: r.mayWrite, ShutdownDelay: c.ShutdownDelay, ShutdownTimeout: c.ShutdownMax, Logger: r.log,
	})
	r.registry.MustRegister(r.server.Collector())
	return nil
}

// handle makes the handlers of reviews.
func (r *replica) handle(reviews webhook.Options) {
	c, middleware, namespaces := r.c, webhook.NewMiddleware(reviews), reviews
	namespaces.Memory = webhook.SideMemoryFor(r.c.MemoryLimit)
	guard := webhook.GuardOptions{
		Compile: r.compile, ExcludedNamespaces: c.Excluded, Templates: r.set.Snapshot, Namespaces: r.namespaces.All,
		Mirrors: c.mirrorsTemplates(), Namespaced: r.namespaced.count(),
		Problems: r.oracle().problems,
	}
	previews := webhook.PreviewOptions{Pods: r.pods, Prefix: c.Prefix}
	if c.ReadWorkloads {
		client := clientset.NewOrDie(r.config) // of its own: nothing else waits for pages of workloads
		w := usage.NewWorkloads(client.CoreV1().RESTClient(), c.Usage(), r.namespaces.Cached)
		guard.Workloads, previews.Workloads = w.Naming, w.In
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
	if c.Preview {
		r.preview(previews, reviews)
	}
}
